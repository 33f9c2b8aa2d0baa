"""When a measurement with `repeats auto` ends. Pure: what is decided in, whether another repeat could add to it out."""

import statistics
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from compare.answer import DECIDES, Contest
from compare.intervals import WHENEVER
from compare.schema import Answer, Claim, Comparison, Ending
from compare.value import Missing


def ending(answer: Answer, contests: Sequence[Contest], claim: Claim | None, repeats: int) -> Ending:
    """Return why a measurement ends after so many whole repeats, at least `FIRST_REPEATS`; "goes on" if it does not.

    An answer may come while more can still be learned of it: after *Not worth it here* it goes on until it is known
    whether longer training changes that, if an epoch alone can be compared.
    """
    if claim not in DECIDES or not contests or any(isinstance(each.now, Missing) for each in contests):
        return "nothing to decide"
    if answer in ("Worth it", "Worth it from"):
        return "decided"
    if any(each.is_lost_for_good or (each.is_lost and isinstance(each.per_epoch, Missing)) for each in contests):
        return "decided"
    return "most repeats" if repeats >= WHENEVER.most_repeats else "goes on"


def budget_seconds(comparison: Comparison) -> float | None:
    """Return the seconds of `budgetMinutes`; None if it is not set."""
    minutes = comparison.settings.get("budgetMinutes")
    return 60.0 * float(minutes) if minutes else None


def repeat_seconds(comparison: Comparison) -> float:
    """Return how long a repeat takes: the longest until now, 0 without any.

    Its runs, and before each of them the usual pause: one that was interrupted and resumed later takes no longer.
    """
    runs = [run for arm in comparison.arms.values() for run in arm.runs]
    spans = sorted((datetime.fromisoformat(run.started_at).timestamp(), run.wall_seconds) for run in runs)
    pauses = [max(0.0, start - before - wall) for (before, wall), (start, _) in pairwise(spans)]
    pause = statistics.median(pauses) if pauses else 0.0
    seconds: dict[int, float] = {}
    for run in runs:
        seconds[run.repeat] = seconds.get(run.repeat, 0.0) + pause + run.wall_seconds
    return max(seconds.values(), default=0.0)


def open_words(answer: str, repeats: int) -> str:
    """Return what a measurement that goes on has not found out yet."""
    if answer == "Not decided":
        return f"not decided in {repeats} repeats"
    return f"{answer} after {repeats} repeats, and whether longer training changes that is not known"
