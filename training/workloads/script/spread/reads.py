"""The files that a script reads in a proof: what it says holds as long as they are as they were.

Python tells of each file that it opens, and of each folder that it lists. What another library opens by itself is found
if it is still open at the end, or if an argument names it. Code is left out, and so is what the script writes, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .files import LISTDIR, SYSTEM
from .originals import OPEN
from .places import is_library

NAME = "reads-"
MOST_FILES = 20_000
"""Of more files their folders count: a file that is added or removed there is seen, one that is changed is not."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
IMPORTS = "importlib._bootstrap_external"
CODE = re.compile(r"\.py[co]?$|\.so(\.|$)")


class Reads:
    """What this process and its forks read, by their names in a file."""

    def __init__(self, file: Path, private: str) -> None:
        """Note it from now on. `private`: the folder of what this process writes."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._private = os.path.join(private, "")
        self._seen: set[tuple[str, bool]] = set()
        sys.addaudithook(self._look)

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        with contextlib.suppress(Exception):  # whatever it is, the script goes on
            if event == "open":
                self._note(args[0], writes=bool(args[2] & WRITES))
            elif event in ("os.listdir", "os.scandir") and sys._getframe(1).f_globals["__name__"] != IMPORTS:
                self._note("." if args[0] is None else args[0])

    def _note(self, name: Any, *, writes: bool = False) -> None:
        """Note a name; not of a folder in which modules are looked for, as libraries do for their versions."""
        if isinstance(name, int):
            return
        text = os.fsdecode(name)
        if (text, writes) in self._seen:
            return
        self._seen.add((text, writes))
        full = os.path.abspath(text)
        if full in sys.path:
            return
        if writes and full.startswith(self._private):
            full = full[len(self._private) - 1 :]
        os.write(self._file, os.fsencode(f"{'w' if writes else 'r'}{full}\0"))

    def end(self) -> None:
        """Note what is still open, whoever opened it."""
        for path in (*_open_files(), *_mapped_files()):
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.stat(path).st_mode):
                    self._note(path)


def _open_files() -> Iterator[str]:
    with contextlib.suppress(OSError):
        for number in LISTDIR("/proc/self/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/self/fd/{number}")


def _mapped_files() -> Iterator[str]:
    with contextlib.suppress(OSError), OPEN("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            yield line.rstrip("\n").split(maxsplit=5)[5:][0] if "/" in line else ""


def of_runs(folder: Path, arguments: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return what all runs in a folder have read, and what the script's arguments name: paths, with their states."""
    read: set[str] = set(filter(None, map(_named, arguments)))
    written: set[str] = set()
    for file in folder.glob(f"*/{NAME}*"):
        for each in os.fsdecode(file.read_bytes()).split("\0"):
            (written if each.startswith("w") else read).add(each[1:])
    own = [f"{each}{os.sep}" for each in (folder, folder.resolve())]  # an open file has its own name
    data = {path for path in read - written if path and not path.startswith((*own, "/usr/lib/", *SYSTEM))}
    paths = {path for path in data if not CODE.search(path) and not is_library(path)}
    if len(paths) > MOST_FILES:
        paths = {os.path.dirname(path) for path in paths}
    return [(path, *state(path)) for path in sorted(paths)]


def _named(argument: str) -> str:
    """Return the path that an argument names, as `data.csv` or `--data=data.csv`; "" if there is none."""
    for text in (argument, argument.partition("=")[2]):
        if text and os.path.exists(text):
            return os.path.abspath(text)
    return ""


def state(path: str) -> tuple[int, int]:
    """Return the size of a file or folder and when it was changed last, in nanoseconds; of none (-1, 0)."""
    try:
        known = os.stat(path)
    except OSError:
        return -1, 0
    return known.st_size, known.st_mtime_ns
