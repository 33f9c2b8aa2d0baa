"""How long a training waits for its batches, and when it had the first: the same for every way to read them."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any


class InputWait:
    """The waits of this process for batches that something is learned from: from asking for one, or for an iterator
    over them, until it is there."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.first_at: float | None = None
        """Seconds of the monotonic clock, when the first batch was there; None: none was."""
        self._here = threading.local()

    def __enter__(self) -> None:
        self._here.depth = getattr(self._here, "depth", 0) + 1
        if self._here.depth == 1:
            self._here.began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._here.depth -= 1
        if not self._here.depth:  # not within another one's
            self.seconds += time.monotonic() - self._here.began

    def deliver(self) -> None:
        """Note that a batch is there."""
        if self.first_at is None:
            self.first_at = time.monotonic()

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data; null where no batch was delivered."""
        seconds = None if self.first_at is None else self.seconds
        return {"dataWaitSeconds": seconds, "firstBatchAt": self.first_at}
