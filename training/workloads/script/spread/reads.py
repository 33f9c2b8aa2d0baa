"""The files that a script reads in a proof, whose outcome holds as long as they do not change.

Python tells of each file that it opens, and of each folder that it lists. What another library opens by itself is found
if it is still open at the end, or if an argument names it. Left out are files that the script writes, too, and the code
of libraries, of this package and in the script's folder, by which an outcome is named.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .files import LISTDIR, SYSTEM
from .originals import OPEN
from .places import OURS, is_library

NAME = "reads-"
MOST_FILES = 20_000
"""If a script read more files, their folders are recorded instead: then a file that is added or removed is noticed, a
changed file is not."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
IMPORTS = "importlib._bootstrap_external"
SHARED = re.compile(r"\.so(\.|$)")


class Reads:
    """Records in a file the names of the files that this process and its forks read."""

    def __init__(self, file: Path, private: str) -> None:
        """Start recording. `private`: the folder into which the files that this process writes are redirected."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._private = os.path.join(private, "")
        self._seen: set[tuple[str, str]] = set()
        sys.addaudithook(self._look)

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        with contextlib.suppress(Exception):  # whatever it is, the script goes on
            if event == "open":
                is_code = sys._getframe(1).f_globals["__name__"] == IMPORTS
                self._note(args[0], "w" if args[2] & WRITES else "c" if is_code else "r")
            elif event in ("os.listdir", "os.scandir") and sys._getframe(1).f_globals["__name__"] != IMPORTS:
                self._note("." if args[0] is None else args[0])

    def _note(self, name: Any, kind: str = "r") -> None:
        """Record the name of a file that is read, written (`w`) or imported (`c`), but no folder on `sys.path`:
        libraries list these folders to find versions."""
        if isinstance(name, int):
            return
        text = os.fsdecode(name)
        if (text, kind) in self._seen:
            return
        self._seen.add((text, kind))
        full = os.path.abspath(text)
        if full in sys.path:
            return
        if kind == "w" and full.startswith(self._private):
            full = full[len(self._private) - 1 :]
        os.write(self._file, os.fsencode(f"{kind}{full}\0"))

    def end(self) -> None:
        """Record the files that are still open or mapped, whoever opened them."""
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


def of_runs(folder: Path, command: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the path, size and time of change of the files that all runs in a folder have read, and of those that the
    script's arguments name."""
    named: dict[str, set[str]] = {"r": set(filter(None, map(_named, command[1:]))), "w": set(), "c": set()}
    for file in folder.glob(f"*/{NAME}*"):
        for each in filter(None, os.fsdecode(file.read_bytes()).split("\0")):
            named[each[0]].add(each[1:])
    script = os.path.abspath(command[0])
    code = {_source(path) for path in named["c"]} | {script}
    beside = os.path.join(os.path.dirname(script), "")
    data = (named["r"] - named["w"] - code) | {path for path in code if not path.startswith(beside)}
    own = [f"{each}{os.sep}" for each in (folder, folder.resolve())]  # an open file has its own name
    others = (*own, OURS, "/usr/lib/", *SYSTEM)
    paths = {path for path in data if not path.startswith(others) and not is_library(path) and not SHARED.search(path)}
    if len(paths) > MOST_FILES:
        paths = {os.path.dirname(path) for path in paths}
    return [(path, *state(path)) for path in sorted(paths)]


def _source(path: str) -> str:
    """Return the source file from which an imported file was compiled."""
    with contextlib.suppress(ValueError):
        return importlib.util.source_from_cache(path)
    return path


def _named(argument: str) -> str:
    """Return the path of the file that an argument names, as `data.csv` or `--data=data.csv`; else ""."""
    for text in (argument, argument.partition("=")[2]):
        if text and os.path.exists(text):
            return os.path.abspath(text)
    return ""


def state(path: str) -> tuple[int, int]:
    """Return the size of a file or folder, and its last change in nanoseconds; (-1, 0) if it does not exist."""
    try:
        known = os.stat(path)
    except OSError:
        return -1, 0
    return known.st_size, known.st_mtime_ns
