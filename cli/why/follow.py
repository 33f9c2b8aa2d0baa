"""Follows a run in which conditions are tried, and ends it when it is decided, when its time is up, or if it stalls."""

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
"""The reason that is printed if a run is ended because it makes no progress."""
LOOK_SECONDS = 1.0
STALLED_SECONDS = 180.0
"""Seconds without a block after which ranks are taken to wait for ever; longer if a block takes long."""
STALLED_BLOCKS = 10
OVERTIME_SECONDS = 20.0
"""Seconds after which a run that was told to end, and did not, is ended from outside."""


class Follower:
    """Follows a run's rounds in a thread during the `with` block, and has the run ended when enough is known."""

    def __init__(self, folder: Path, seconds: float, say: Callable[[str], None], arms: int = 1) -> None:
        """`seconds` is the time for trying conditions, counted from the moment when the run's plan exists. `arms` is
        the number of arms about which something is said."""
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
        """Decide whether enough is known, at each of the fixed numbers of rounds, of which several may have passed
        since the last call."""
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
