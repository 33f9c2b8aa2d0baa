"""When a measurement with `repeats auto` ends. Pure: what is decided in, whether another repeat could add to it out."""

import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from compare.answer import DECIDES, Contest
from compare.intervals import WHENEVER
from compare.measurement import Measurement
from compare.schema import Answer, Claim, Comparison, Ending
from compare.value import Missing

BUDGET = "budgetMinutes"
"""Setting of how long an update may take."""


def ending(
    answer: Answer, contests: Sequence[Contest], claim: Claim | None, repeats: int, *, is_final: bool = False
) -> Ending:
    """Return why a measurement ends after so many whole repeats, at least `FIRST_REPEATS`; "goes on" if it does not.

    An answer may come while more can still be learned of it: after *Not worth it here* it goes on until it is known
    whether longer training changes that, if an epoch alone can be compared. `is_final`: that is known not to.
    """
    if claim not in DECIDES or not contests or any(isinstance(each.now, Missing) for each in contests):
        return "nothing to decide"
    if is_final or answer in ("Worth it", "Worth it from"):
        return "decided"
    if any(each.is_lost_for_good or (each.is_lost and isinstance(each.per_epoch, Missing)) for each in contests):
        return "decided"
    return "most repeats" if repeats >= WHENEVER.most_repeats else "goes on"


def budget_seconds(comparison: Comparison) -> float | None:
    """Return the seconds of `budgetMinutes`; None if it is not set."""
    return _budget_seconds(comparison.settings)


def _budget_seconds(settings: Mapping[str, str]) -> float | None:
    minutes = settings.get(BUDGET)
    return 60.0 * float(minutes) if minutes else None


def repeat_seconds(comparison: Comparison) -> float:
    """Return how long a repeat takes: the longest until now, 0 without any.

    Its runs, and before each of them the usual pause: one that was interrupted and resumed later takes no longer.
    """
    runs = [run for arm in comparison.arms.values() for run in arm.runs]
    return _longest_repeat(
        [(run.repeat, datetime.fromisoformat(run.started_at).timestamp(), run.wall_seconds) for run in runs]
    )


def _longest_repeat(runs: Sequence[tuple[int, float, float]]) -> float:
    """Return the seconds of the longest repeat; of each run its repeat, when it started, and how long it took."""
    spans = sorted((started, wall) for _, started, wall in runs)
    pauses = [max(0.0, start - before - wall) for (before, wall), (start, _) in pairwise(spans)]
    pause = statistics.median(pauses) if pauses else 0.0
    seconds: dict[int, float] = {}
    for repeat, _, wall in runs:
        seconds[repeat] = seconds.get(repeat, 0.0) + pause + wall
    return max(seconds.values(), default=0.0)


def lacks_time(comparison: Comparison) -> bool:
    """Return whether `budgetMinutes` ends each update before a further repeat."""
    budget = budget_seconds(comparison)
    return budget is not None and repeat_seconds(comparison) > budget


def next_up(measurement: Measurement) -> str:
    """Return what the next update does with a measurement that goes on."""
    runs = [(run.repeat, run.started, run.result.seconds.wall) for of in measurement.by_arm.values() for run in of]
    budget = _budget_seconds(measurement.context.settings)
    if budget is not None and _longest_repeat(runs) > budget:
        return f"no `up` goes on, because a repeat takes longer than {BUDGET} {measurement.context.settings[BUDGET]}"
    return "the next `up` goes on"


def open_words(answer: str, repeats: int) -> str:
    """Return what a measurement that goes on has not found out yet."""
    if answer == "Not decided":
        return f"not decided in {repeats} repeats"
    return f"{answer} after {repeats} repeats, and whether longer training changes that is not known"
