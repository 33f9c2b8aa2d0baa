"""When a measurement with `repeats auto` ends. Pure: what is decided in, whether another repeat could add to it out."""

from collections.abc import Sequence
from datetime import datetime

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
    if any(each.is_lost and (each.longer_cannot_win or isinstance(each.per_epoch, Missing)) for each in contests):
        return "decided"
    return "most repeats" if repeats >= WHENEVER.most_repeats else "goes on"


def budget_seconds(comparison: Comparison) -> float | None:
    """Return the seconds of `budgetMinutes`; None if it is not set."""
    minutes = comparison.settings.get("budgetMinutes")
    return 60.0 * float(minutes) if minutes else None


def repeat_seconds(comparison: Comparison) -> float:
    """Return how long a repeat takes, from its first start to its last end: the longest until now, 0 without any."""
    runs = [run for arm in comparison.arms.values() for run in arm.runs]
    starts = {run.name: datetime.fromisoformat(run.started_at).timestamp() for run in runs}
    spans = {}
    for repeat in {run.repeat for run in runs}:
        own = [run for run in runs if run.repeat == repeat]
        spans[repeat] = max(starts[run.name] + run.wall_seconds for run in own) - min(starts[run.name] for run in own)
    return max(spans.values(), default=0.0)
