"""What `make try` was asked for, from its variables; a bad one is refused with what is allowed."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.setup.project import ROOT, VENV, ToolError
from tools.tryout import write
from training.workloads.script import recipe

USAGE = 'make try SCRIPT=../mine/train.py ARGS="--epochs 1 --num-workers {workers}" PYTHON=../mine/.venv/bin/python'


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


def read(environment: Mapping[str, str] = os.environ) -> Request:
    """The request. Raises ToolError."""
    script = environment.get("SCRIPT", "")
    if not script:
        raise ToolError(f"SCRIPT is missing: the file that trains, as in\n  {USAGE}")
    if environment.get("WRITE") and write.is_secret(environment.get("ARGS", "")):
        raise ToolError(
            "ARGS has what looks like a secret, and WRITE=1 would put it into a stack's file, which git tracks: give it"
            f" as a variable, which stays out of it\n  {USAGE} ENV='API_TOKEN=…' WRITE=1"
        )
    python = environment.get("PYTHON") or str(VENV / "bin" / "python")
    return Request(
        script=_path(script),
        arguments=tuple(_words("ARGS", environment.get("ARGS", ""))),
        python=str(_path(python)) if "/" in python else python,
        kind=environment.get("KIND") or "auto",
        variables=_variables(environment.get("ENV", "")),
        workers=_whole(environment, "WORKERS", 2, 1, _cpus()),
        steps=_whole(environment, "STEPS", 20, 8, 10_000),
        limit_seconds=_whole(environment, "LIMIT", 120, 5, 3600),
        write_to=(environment.get("STACK") or "local") if environment.get("WRITE") else "",
        keys=write.keys(environment),
        secrets=tuple(write.secrets(environment)),
    )


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
