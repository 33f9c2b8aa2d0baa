"""Follows a run in which conditions are tried, and has it end: when it is decided, when its time is up, or stalls."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from cli.why import blocks
from compare import why
from compare.why import Tried
from training.workloads.script.observe import experiment

DECIDED, TIME_UP = "decided", "its time was up"
STALLED = "it tried nothing any more, as where ranks wait for each other, or a validation is long"
"""Why a run is told to end."""
LOOK_SECONDS = 1.0
STALLED_SECONDS = 180.0
"""Without another block, after which the ranks wait for each other for ever; longer where a block takes long."""
STALLED_BLOCKS = 10
OVERTIME_SECONDS = 20.0
"""After which a run that was told to end is ended from outside: its round is long, or it goes on in spite of that."""


class Follower:
    """Looks at a run's blocks while it is entered."""

    def __init__(self, folder: Path, seconds: float, say: Callable[[str], None], arms: int = 1) -> None:
        """`seconds`: how long the run may try, counted from its plan on. `arms`: of how many something is said."""
        self.ended = ""
        """Why the run was told to end; "" if it was not."""
        self._folder, self._seconds, self._say, self._arms = folder, seconds, say, arms
        self._looks = list(why.LOOKS)
        self._began: float | None = None
        self._told_at: float | None = None
        self._over = threading.Event()
        self._is_to_be_ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def is_to_be_ended(self) -> bool:
        """Return whether the run has to be ended from outside, because it makes no progress or does not end."""
        return self._is_to_be_ended.is_set()

    def _follow(self) -> None:
        size, changed, rounds, longest = 0, time.monotonic(), 0, 0.0
        reader = blocks.Reader(self._folder)
        while not self._over.wait(LOOK_SECONDS):
            now, grown = time.monotonic(), self._size()
            if grown != size:
                longest = max(longest, now - changed) if size else 0.0
                size, changed = grown, now
                tried = reader.read()
                if tried and len(tried.rounds) > rounds:
                    rounds = len(tried.rounds)
                    self._look(tried)
            elif size and now - changed > max(STALLED_SECONDS, STALLED_BLOCKS * longest):
                self.ended = self.ended or STALLED
                self._is_to_be_ended.set()
            if self._began is None and (self._folder / experiment.PLAN).exists():
                self._began = now
            if self._began is not None and now - self._began > self._seconds:
                self._end(TIME_UP)
            if self._told_at is not None and now - self._told_at > OVERTIME_SECONDS:
                self._is_to_be_ended.set()

    def _look(self, tried: Tried) -> None:
        """Look after each number of rounds that was fixed before, of which several may have passed."""
        seen = tried
        while self._looks and len(tried.rounds) >= self._looks[0]:
            seen = replace(tried, rounds=tried.rounds[: self._looks.pop(0)])
            if why.is_enough(seen, self._arms):
                self._end(DECIDED)
                break
        if seen is not tried:
            self._say(f"  {len(seen.rounds)} rounds: ±{100 * (why.widest(seen, self._arms) or 0.0):.0f} %")

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.ended, self._told_at = reason, time.monotonic()
            (self._folder / experiment.ENOUGH).touch()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("why-*.jsonl"))
