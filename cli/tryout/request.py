"""Reads the variables of `make try`; an invalid one is refused with what is allowed."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.setup.project import ROOT, VENV, ToolError, is_on
from cli.setup.usage import quoted
from cli.tryout import write
from training.workloads.script import recipe

USAGE = 'SCRIPT=../mine/train.py ARGS="--epochs 1 --num-workers {workers}" PYTHON=../mine/.venv'
VARIABLES = ("SCRIPT", "ARGS", "PYTHON", "WORKERS", "KIND", "ENV", "STEPS", "LIMIT")
"""In the order in which one types them."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The variables, read."""

    script: Path
    arguments: tuple[str, ...]
    python: str
    kind: str
    variables: Mapping[str, str]
    """What the script needs beside what every run may have."""
    workers: int
    steps: int
    limit_seconds: int
    """Of one arm."""
    write_to: str
    """The stack whose file gets the keys; "": none."""
    keys: Mapping[str, str]
    """What was given, as keys of a stack; without secret variables."""
    secrets: tuple[str, ...]
    """The names of those."""
    command: str
    """The same again, as one types it."""
    own_stack: str
    """The name of a stack for this script alone."""


def read(environment: Mapping[str, str] = os.environ, target: str = "try") -> Request:
    """The request of `make try`, or of another target with its variables. Raises ToolError."""
    script = environment.get("SCRIPT", "")
    if not script:
        raise ToolError(f"SCRIPT is missing: the file that trains, as in\n  make {target} {USAGE}")
    writes = is_on("WRITE", environment)
    if writes and write.is_secret(environment.get("ARGS", "")):
        raise ToolError(
            "ARGS has what looks like a secret, and WRITE=1 would put it into a stack's file, which git tracks: give it"
            f" as a variable, which stays out of it\n  make {target} {USAGE} ENV='API_TOKEN=…' WRITE=1"
        )
    variables = _variables(environment.get("ENV", ""))
    python = _python(environment.get("PYTHON") or str(VENV / "bin" / "python"))
    keys = write.keys({**environment, "PYTHON": python} if environment.get("PYTHON") else environment)
    own_stack = environment.get("STACK") or write.stack_of(script)
    if writes:
        write.check(own_stack, keys, is_named=bool(environment.get("STACK")))
    return Request(
        script=_path(script),
        arguments=tuple(_words("ARGS", environment.get("ARGS", ""))),
        python=str(_path(python)) if "/" in python else python,
        kind=environment.get("KIND") or "auto",
        variables=variables,
        workers=_whole(environment, "WORKERS", 2, 1, _cpus()),
        steps=_whole(environment, "STEPS", 20, 8, 10_000),
        limit_seconds=_whole(environment, "LIMIT", 120, 5, 3600),
        write_to=own_stack if writes else "",
        keys=keys,
        secrets=tuple(write.secrets(environment)),
        command=_command(environment, target),
        own_stack=own_stack,
    )


def _python(text: str) -> str:
    """The interpreter; of an environment's folder the one in it."""
    inside, path = Path(text) / "bin" / "python", ROOT / Path(text).expanduser()
    is_missing = "/" in text and not path.exists() and not path.name.startswith("python")
    return str(inside) if is_missing or (ROOT / inside.expanduser()).exists() else text


def _command(environment: Mapping[str, str], target: str) -> str:
    words = [f"{name}={quoted(environment[name])}" for name in VARIABLES if environment.get(name)]
    stack = f"STACK={environment['STACK']} " if environment.get("STACK") else ""
    return f"{stack}make {target} {' '.join(words)}"


def _path(text: str) -> Path:
    """Relative to the project's folder. Not resolved: an environment's Python is a link to one that is of none."""
    return Path(os.path.normpath(ROOT / Path(text).expanduser()))


def _words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ToolError(f"{name}={text}: {error}; quote it as in a shell") from None


def _variables(text: str) -> dict[str, str]:
    try:
        return recipe.variables(text)
    except ValueError as error:
        raise ToolError(f"ENV={text}: {error}") from None


def _whole(environment: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= most:
        why = "; a worker has a CPU of its own, and this machine has no more" if name == "WORKERS" else ""
        raise ToolError(f"{name}={text}: allowed is a whole number from {least} to {most}{why}")
    return int(text)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
