"""Follows the program as a reader does: each function at its first call, and how often a file is entered again.

A stay is a run of first calls in one file, and a return a stay in a file that was left before. Comprehensions, lambdas
and what a module does while it is imported are no calls; nor is what the tests' own engine calls to make results up.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("__main__.py", "infra/", "training/", "compare/")
ENGINE = ("run_program", "record")
"""Functions of the recorder by which the program itself runs."""
COMPARISON = ("infra/outputs.py", "comparison")
"""Where the comparison's part of the program begins."""
OPTIMIZED = 1
"""Flag of the code of functions; that of modules and classes has it not."""

Step = tuple[str, str]
"""A file and a function in it."""


class Walk:
    """The first calls of one run of the program, in their order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.last_registered = 0
        """Steps until the last resource was registered."""
        self._seen: set[CodeType] = set()
        """What needs no second look."""

    def register(self) -> None:
        """Note that a resource is registered now."""
        self.last_registered = len(self.steps)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow what is called in this thread, and in all that start meanwhile and that the program waits for.

        Others, as a watch, call at times of their own: on a slow machine before the last resource.
        """
        sys.setprofile(self._profile)
        threading.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def parts(self) -> dict[str, list[Step]]:
        """The program until its last resource, and the comparison of what the runs gave."""
        return {"program": self.steps[: self.last_registered], "compare": self.steps[self.steps.index(COMPARISON) :]}

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen:
            return
        file = code.co_filename.removeprefix(f"{ROOT}/")
        is_program = file == "__main__.py"
        if not is_program and not _may_be_a_step(file, code):
            self._seen.add(code)
            return
        if not (self.steps or is_program):
            return
        if _is_of_program(frame) and not threading.current_thread().daemon:
            self._seen.add(code)
            self.steps.append((file, code.co_name))


def _may_be_a_step(file: str, code: CodeType) -> bool:
    """Whether it is a function of the program, whoever calls it."""
    return file.startswith(ROOMS) and not code.co_name.startswith("<") and bool(code.co_flags & OPTIMIZED)


def _is_of_program(frame: FrameType) -> bool:
    """Whether the program calls it: not a module that is imported, nor the tests' engine."""
    caller = frame.f_back
    while caller and not caller.f_code.co_filename.startswith(f"{ROOT}/tests/"):
        if not caller.f_code.co_flags & OPTIMIZED and not caller.f_code.co_filename.endswith("__main__.py"):
            return False
        caller = caller.f_back
    return caller is None or caller.f_code.co_name in ENGINE


def stays(steps: Sequence[Step]) -> list[tuple[str, list[str]]]:
    """The files in the order in which they are entered, with the functions that are read there."""
    return [(file, [name for _, name in part]) for file, part in groupby(steps, key=lambda step: step[0])]


def returns(steps: Sequence[Step]) -> int:
    """How often a file is entered that was left before."""
    files = [file for file, _ in stays(steps)]
    return len(files) - len(set(files))


def listed(steps: Sequence[Step]) -> str:
    """The way, a stay a line: what a failing test shows."""
    return "\n".join(f"{file}: {', '.join(names)}" for file, names in stays(steps))
