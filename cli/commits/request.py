"""What `rwi compare-commits` is asked for: two commits, and a script as `try` takes one. A wrong call is click's."""

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from cli.commits import checkouts
from cli.setup import uv
from cli.setup.project import STATE, ToolError, absolute, capture, last_line
from cli.tryout import request as of_try
from cli.tryout.typed import Typed
from compare.commits import Commit
from training.machine import command_line
from training.workloads.script.commands import ARMS

IMPORTED_FROM = """
import json, os, sys
from importlib import metadata
roots = [path for path in sys.path if path and not path.startswith(sys.prefix + os.sep)]
for each in metadata.distributions():
    about = json.loads(each.read_text("direct_url.json") or "{}")
    if about.get("url", "").startswith("file://"):
        root = about["url"][len("file://"):]
        roots += [path for path in (os.path.join(root, "src"), root) if os.path.isdir(path)]
print(json.dumps(roots))
"""
"""A Python program that prints folders outside of an environment from which it imports, or from which its packages were
installed."""


@dataclass(frozen=True, kw_only=True)
class CommitsRequest:
    """The checked arguments and options of a call of `rwi compare-commits`."""

    typed: Typed
    top: Path
    """The root folder of the repository."""
    script: str
    """The path of the script in the repository."""
    commits: Mapping[str, Commit]
    """The two commits by name, `base` and `head`."""
    arms: tuple[str, ...]
    minutes: float
    requirements: str
    json_to: str
    markdown_to: str


def read(
    typed: Typed, base: str, head: str, *, arms: Sequence[str], requirements: str, **written: Any
) -> CommitsRequest:
    """Return the checked request. Raise UsageError for a wrong argument."""
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise click.UsageError(f"--arms {','.join(unknown)}: allowed are {', '.join(ARMS)}, as in  --arms baseline,ray")
    if requirements and typed.python:
        raise click.UsageError("--python names an environment, and --requirements one to make: give one of them")
    if requirements and not absolute(requirements).is_file():
        raise click.UsageError(f"--requirements {requirements}: there is no such file")
    path = absolute(typed.script)
    here = Path(os.environ.get(command_line.FROM, "."))
    top = checkouts.repository(path.parent if path.parent.is_dir() else here)
    script = os.path.relpath(path.parent.resolve() / path.name, top)
    if script.startswith(".."):
        raise click.UsageError(f"{typed.script} is not in the repository {top}")
    if not requirements:
        typed = replace(typed, python=typed.python or of_try.surrounding(typed.script))
    return CommitsRequest(
        typed=typed,
        top=top,
        script=script,
        commits={"base": checkouts.commit(top, base, script), "head": checkouts.commit(top, head, script)},
        arms=tuple(dict.fromkeys(arms)) or ARMS,
        requirements=requirements,
        **written,
    )


def environment(requirements: str) -> str:
    """Return the Python of an environment with the packages of a requirements file. An environment is made once for
    each content of the file. Raise ToolError if the packages cannot be installed."""
    file = absolute(requirements)
    content = file.read_bytes()
    folder = STATE / "environments" / hashlib.sha256(bytes(file) + b"\0" + content).hexdigest()[:16]
    python, marker = str(folder / "bin" / "python"), folder / "made"
    if marker.exists():
        return python
    backend = ["--torch-backend", "cpu"] if b"torch" in content else []
    install = ["pip", "install", "--compile-bytecode", "--python", python, *backend, "-r", str(file)]
    for arguments in (["venv", "--clear", "--python", "3.11", str(folder)], install):
        done = capture([str(uv.find_uv()), *arguments], file.parent)
        if done.returncode:
            raise ToolError(f"--requirements {requirements} can't be installed: {last_line(done.stderr)}")
    marker.touch()
    return python


def of_repository(python: str, top: Path) -> list[str]:
    """Return the folders of the repository from which an environment imports or has an installed package. Each commit's
    runs use the same folders of its own checkout."""
    try:
        roots: list[str] = json.loads(capture([python, "-B", "-c", IMPORTED_FROM]).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []  # what no Python answers is refused, with the reason, where it is used
    inside = [Path(root).resolve() for root in roots if Path(root).resolve().is_relative_to(top.resolve())]
    return [str(root.relative_to(top.resolve())) for root in dict.fromkeys(inside)]
