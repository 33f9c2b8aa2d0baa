"""Where the script is when it does something: by files and lines, those of PyTorch and of this package left out."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
START = OURS + "process.py"
"""The file with the function `run`, which runs the script."""
SPACE = "\N{NO-BREAK SPACE}"
"""Replaces blanks in the name of a file, because blanks separate the lines of a place."""
OBSERVER = "ray_worth_it_observe"
"""Name of the observer's package. It is loaded in ranks, and not in the process that makes the plan, so a place must
not contain its lines."""
LIBRARIES = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {f"{os.sep}site-packages{os.sep}"}
)


def line() -> str:
    """Return the file and line of the innermost call in the user's own code; "" if there is no such call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def stack() -> str:
    """Return all lines of the script that led to this call, so that two calls of the same function differ. Lines that
    started the script are left out: a worker of Ray starts it from other lines than a process does."""
    frame: FrameType | None = sys._getframe(1)
    lines = []
    while frame is not None and not _starts_script(frame):
        if _is_users(frame.f_code.co_filename) and not frame.f_globals.get("__name__", "").startswith(OBSERVER):
            name = os.path.basename(frame.f_code.co_filename).replace(" ", SPACE)
            lines.append(f"{name}:{frame.f_lineno}")
        frame = frame.f_back
    return " ".join(lines)


def innermost() -> str:
    """Return the innermost of the script's lines that led to this call."""
    return stack().partition(" ")[0]


def _starts_script(frame: FrameType) -> bool:
    return frame.f_code.co_filename == START and frame.f_code.co_name == "run"


def _is_users(name: str) -> bool:
    if name.startswith((OURS, "<")):
        return False
    return not is_library(name)


def is_library(path: str) -> bool:
    """Return whether a file belongs to an installed package or to Python."""
    return any(library in path for library in LIBRARIES)
