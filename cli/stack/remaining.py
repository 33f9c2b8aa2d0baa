"""Estimates how long the remaining runs of an update take: by its own runs so far, else by earlier ones. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from cli.stack.update import Update, side_of
from compare.words import duration

BETWEEN_SECONDS = 2.0
"""Seconds from the end of a run to the start of the next run."""


class Remaining:
    """Estimates the remaining time of an update from the durations of each arm's runs, which it learns as runs end."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self._known = known
        self._own: dict[str, list[float]] = {}
        self._started: dict[str, float] = {}

    def follow(self, update: Update, now: float) -> None:
        """Record which runs began and ended. Callers call this at every change of the update."""
        if update.current:
            self._started.setdefault(update.current, now)
        for run in update.kept & self._started.keys():
            self._own.setdefault(side_of(run), []).append(now - self._started.pop(run))

    def wait(self, run: str, now: float) -> None:
        """Record that a run waits for the machine, so that its time counts from the moment when the wait ends."""
        self._started[run] = now

    def seconds(self, update: Update, now: float) -> float | None:
        """Return the total seconds of all remaining runs; None if the duration of one of them is not known."""
        left = [run for run in update.to_make if run not in update.kept]
        whole = {run: self._of(side_of(run)) for run in left}
        if not left or any(seconds is None for seconds in whole.values()):
            return None
        elapsed = {run: now - self._started.get(run, now) for run in left}
        return sum(max(0.0, (whole[run] or 0.0) - elapsed[run]) + BETWEEN_SECONDS for run in left)

    def overdue(self, run: str, now: float) -> float | None:
        """Return the seconds that were expected of a run which takes longer; None if it does not, or none were."""
        expected = self._of(side_of(run))
        return expected if expected is not None and now - self._started.get(run, now) > expected else None

    def _of(self, side: str) -> float | None:
        """Return the expected seconds of an arm's run; without known ones those of other arms; else None."""
        if own := self._own.get(side):
            return statistics.fmean(own)
        others = [statistics.fmean(values) for values in self._own.values()] or list(self._known.values())
        return self._known.get(side) or (statistics.fmean(others) if others else None)


def in_words(seconds: float) -> str:
    """Return a duration such as `about 3 min` or `about 40 s`, with seconds rounded to a multiple of 5."""
    return f"about {duration(max(5, 5 * round(seconds / 5)))}"
