"""What `rwi try` is asked for: a script as it was typed, checked; a bad value is refused with what is allowed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cli.setup.project import ROOT, VENV, ToolError, absolute
from cli.tryout import write
from cli.tryout.typed import Typed
from training.machine.command_line import quoted

EXAMPLE = "../mine/train.py --python ../mine/.venv -- --epochs 1 --num-workers {workers}"
STEPS, LIMIT_SECONDS = 20, 120


@dataclass(frozen=True, kw_only=True)
class Request:
    """The checked arguments and options of a call of `rwi try`."""

    typed: Typed
    options: tuple[str, ...]
    """The other options of the call, as they were typed."""
    script: Path
    python: str
    workers: int
    steps: int
    limit_seconds: int
    """Most seconds for one arm."""
    write_to: str
    """The stack whose file gets the keys; "" if no file is written."""
    keys: Mapping[str, str]
    """The call's arguments and options as keys of a stack, without secret variables."""
    own_stack: str
    """The name of a stack for this script alone."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the script's arguments."""
        return self.typed.arguments

    @property
    def kind(self) -> str:
        """Return the kind of the script, such as `torchrun`; `auto` if the kind is to be recognised."""
        return self.typed.kind or "auto"

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables that the script needs in addition to those of every run."""
        return self.typed.variables

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of secret variables."""
        return tuple(write.secrets(self.typed.variables))

    def line(self, *more: str, python: str = "") -> str:
        """Return the command line of this call, with more options, or with another Python."""
        typed = replace(self.typed, python=python) if python else self.typed
        return typed.line("try", [*self.options, *more])


def read(
    typed: Typed, *, steps: int = STEPS, limit_seconds: int = LIMIT_SECONDS, writes: bool = False, stack: str = ""
) -> Request:
    """Return the checked request. Raise ToolError for a wrong or unsafe argument."""
    typed = replace(typed, python=typed.python or surrounding(typed.script))
    if writes and write.is_secret(" ".join(map(quoted, typed.arguments))):
        example = Typed(script=typed.script, variables={"API_TOKEN": "…"})
        raise ToolError(
            "the arguments have what looks like a secret, and --write would put it into a stack's file, which git"
            f" tracks: give it as a variable, which stays out of it\n  {example.line('try', ['--write'])}"
        )
    if typed.workers and typed.workers > cpus():
        raise ToolError(
            f"--workers {typed.workers}: allowed is a whole number from 1 to {cpus()}; a worker has a CPU of its own,"
            " and this machine has no more"
        )
    python = interpreter(typed.python or str(VENV / "bin" / "python"))
    keys = write.keys(replace(typed, python=python) if typed.python else typed)
    own_stack = stack or write.stack_of(typed.script)
    if writes:
        write.check(own_stack, keys, is_named=bool(stack))
    options = ["--steps", str(steps)] * (steps != STEPS)
    options += ["--limit", str(limit_seconds)] * (limit_seconds != LIMIT_SECONDS)
    options += ["--stack", stack] * bool(stack)
    return Request(
        typed=typed,
        options=tuple(options),
        script=absolute(typed.script),
        python=str(absolute(python)) if "/" in python else python,
        workers=typed.workers or 2,
        steps=steps,
        limit_seconds=limit_seconds,
        write_to=own_stack if writes else "",
        keys=keys,
        own_stack=own_stack,
    )


def surrounding(script: str) -> str:
    """Return the environment to use for a script outside of this project if none is named: `.venv` in the script's
    folder, or else the active environment; "" if there is none."""
    if absolute(script).is_relative_to(ROOT):
        return ""
    active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    folders = [str(Path(script).parent / ".venv"), *(folder for folder in active if folder and Path(folder) != VENV)]
    return next((folder for folder in folders if (absolute(folder) / "bin" / "python").exists()), "")


def interpreter(text: str) -> str:
    """Return the path of the interpreter; of a folder of an environment, that of the interpreter in it. What is in a
    folder `bin` is no folder of an environment."""
    inside, path = Path(text) / "bin" / "python", ROOT / Path(text).expanduser()
    is_missing = "/" in text and not path.exists() and not path.name.startswith("python") and path.parent.name != "bin"
    return str(inside) if is_missing or (ROOT / inside.expanduser()).exists() else text


def cpus() -> int:
    """Return the number of CPUs that this process may use, which is the largest number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
