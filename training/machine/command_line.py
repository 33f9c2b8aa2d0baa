"""The lines of this project's own command line that messages tell a user to type, as that user calls it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Optional

CALLED = "RWI"
"""Environment variable that says how `rwi` was called: `./rwi`, `../x/rwi`."""
DOOR = "RWI_DOOR"
"""Environment variable that says what the user types instead of `rwi`, if another program started it."""
FROM = "RWI_FROM"
"""Environment variable with the folder in which the user typed the command, which runs in the project's folder."""
DEFAULT_STACK = "local"
"""The stack of a command without `--stack`."""

_PLAIN = re.compile(r"[\w@%+=:,./{}…-]+")


def quoted(word: str) -> str:
    """Return a word as a user types it in a shell, with quotes if it needs them. `{workers}` needs no quotes."""
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


def rwi(command: str, stack: str = DEFAULT_STACK, settings: Optional[Mapping[str, str]] = None) -> str:  # noqa: UP045
    """Return the line that a user types to run a command of `rwi`.

    Args:
        command: The command's name, and its arguments as a user types them in a shell.
        stack: The stack that the command is for; the default stack is not named in the line.
        settings: Values of config keys for this call alone.
    """
    words = [os.environ.get(CALLED) or "./rwi", command]
    words += ["--stack", quoted(stack)] if stack != DEFAULT_STACK else []
    for key, value in (settings or {}).items():
        words += ["--set", assignment(key, value)]
    return " ".join(words)


def again(*commands: str, stack: str = "") -> str:
    """Return the line by which the user runs these commands (`up` and the like) again, in the way that the user came:
    by `rwi` or by plain Pulumi."""
    if os.environ.get(CALLED):
        return " && ".join(rwi(each, stack or DEFAULT_STACK) for each in commands)
    of_stack = f" --stack {quoted(stack)}" if stack else ""
    return " && ".join(f"pulumi {each}{of_stack}" for each in commands)


def assignment(key: str, value: str) -> str:
    """Return `key=value` as a user types it in a shell, with quotes around the value alone."""
    return f"{key}={quoted(value) if value else ''}"


def from_there(path: str) -> str:
    """Return a path of the project's folder as seen from the folder in which the user typed the command."""
    folder = os.environ.get(FROM)
    if folder in (None, os.getcwd()) or "/" not in path or os.path.isabs(path):  # noqa: PTH109, PTH117
        return path
    return os.path.relpath(path, folder)


def called_as(program: str) -> str:
    """Return the name under which the program was started, as a user types it at the beginning of a line."""
    return shlex.quote(program if "/" in program else f"./{program}")
