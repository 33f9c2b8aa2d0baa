"""The steps of a rank in the parts that a whole clock is made of: warm-up, timed steps, and what lies between. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SETTLED = 1.1
"""The time of a step has settled when it, and the median of three from it on, are at most so many times the median of
the later half."""


@dataclass(frozen=True, kw_only=True)
class StepClock:
    """Of one rank; the others go in step with it."""

    epochs: int
    """Whole ones, or 1 for the run where the end of an epoch is not known, or none was finished."""
    per_epoch: int
    """Steps of one of them."""
    whole_epochs: bool
    settled_after: int
    """Steps of the warm-up, beside the first."""
    warmup_seconds: float
    timed: list[float]
    """Seconds of each later step but the first of an epoch, which validation, reports and checkpoints come before."""
    timed_steps: list[int]
    """Which these are: 1 is the second step, whose length is the time since the first."""
    between_seconds: float
    """What lay before the first steps of epochs, beside a step each."""


def step_clock(ends: Sequence[float], steps_per_epoch: int | None, *, ended_early: bool = False) -> StepClock:
    """From the seconds at which steps ended; `ended_early` where not the script decided how many there are."""
    lengths = [after - before for before, after in pairwise(ends)]
    total = len(ends)
    known = steps_per_epoch if steps_per_epoch and steps_per_epoch > 1 else total
    whole = bool(steps_per_epoch) and total % known == 0 and not ended_early
    first_steps = {number for number in range(len(lengths)) if (number + 1) % known == 0}
    settled = _settled(lengths)
    timed_steps = [number + 1 for number in range(settled, len(lengths)) if number not in first_steps]
    timed = [lengths[number - 1] for number in timed_steps]
    step = statistics.fmean(timed) if timed else 0.0
    return StepClock(
        epochs=total // known if whole else 1,
        per_epoch=known if whole else total,
        whole_epochs=whole,
        settled_after=settled,
        warmup_seconds=sum(length for number, length in enumerate(lengths[:settled]) if number not in first_steps),
        timed=timed,
        timed_steps=timed_steps,
        between_seconds=sum(max(0.0, lengths[number] - step) for number in first_steps),
    )


def _settled(lengths: Sequence[float]) -> int:
    """From which step on their time has settled: at latest with the later half."""
    half = len(lengths) // 2
    if not half:
        return 0
    later = statistics.median(lengths[half:])
    lasting = (max(lengths[first], statistics.median(lengths[first : first + 3])) for first in range(half))
    return next((first for first, seconds in enumerate(lasting) if seconds <= SETTLED * later), half)
