"""Follows a run in which conditions are tried, and has it end: when it is decided, when its time is up, or stalls."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from compare import why
from compare.why import Tried
from tools.why import blocks
from training.workloads.script.observe import experiment

DECIDED, TIME_UP, STALLED = "decided", "its time was up", "its ranks waited for each other"
"""Why a run is told to end."""
LOOK_SECONDS = 1.0
STALLED_SECONDS = 60.0
"""Without another block, after which the ranks wait for each other for ever; longer where a block takes long."""
STALLED_BLOCKS = 10


class Follower:
    """Looks at a run's blocks while it is entered."""

    def __init__(self, folder: Path, seconds: float, say: Callable[[str], None]) -> None:
        """`seconds`: how long the run may try, counted from its plan on."""
        self.ended = ""
        """Why the run was told to end; "" if it was not."""
        self._folder, self._seconds, self._say = folder, seconds, say
        self._to_say = list(why.LOOKS)
        self._began: float | None = None
        self._over = threading.Event()
        self._stalled = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def is_stalled(self) -> bool:
        """Return whether the run makes no progress any more, so that it has to be ended from outside."""
        return self._stalled.is_set()

    def _follow(self) -> None:
        size, changed, rounds, longest = 0, time.monotonic(), 0, 0.0
        while not self._over.wait(LOOK_SECONDS):
            now, grown = time.monotonic(), self._size()
            if grown != size:
                longest = max(longest, now - changed) if size else 0.0
                size, changed = grown, now
                tried = blocks.tried(self._folder)
                if tried and len(tried.rounds) > rounds:
                    rounds = len(tried.rounds)
                    self._look(tried)
            elif size and now - changed > max(STALLED_SECONDS, STALLED_BLOCKS * longest):
                self.ended = self.ended or STALLED
                self._stalled.set()
            if self._began is None and (self._folder / experiment.PLAN).exists():
                self._began = now
            if self._began is not None and now - self._began > self._seconds:
                self._end(TIME_UP)

    def _look(self, tried: Tried) -> None:
        if self._to_say and len(tried.rounds) >= self._to_say[0]:
            self._to_say = [look for look in self._to_say if look > len(tried.rounds)]
            self._say(f"  {len(tried.rounds)} rounds: ±{100 * (why.widest(tried) or 0.0):.0f} %")
        if why.is_enough(tried):
            self._end(DECIDED)

    def _end(self, reason: str) -> None:
        if not self.ended:
            self.ended = reason
            (self._folder / experiment.ENOUGH).touch()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("why-*.jsonl"))
