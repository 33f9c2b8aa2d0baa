"""The steps of a rank in the parts that a whole clock is made of: warm-up, timed steps, and what lies between. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SETTLED = 1.1
"""The time of a step has settled when it, and the median of three from it on, are at most so many times the median of
the later half."""

FIRST_WAITED = 8
"""Steps beside the first after each of which a device is waited for, to choose how often it is afterwards."""


@dataclass(frozen=True, kw_only=True)
class SeenPass:
    """A pass over the data set that is trained on."""

    start: int
    """Steps before its first batch."""
    finished: bool
    """True if it came to the end of the data set."""


@dataclass(frozen=True, kw_only=True)
class StepClock:
    """The steps' times on one rank; the others go in step with it."""

    epochs: int
    """Whole ones, or 1 for the run where the end of an epoch is not known, or none was finished."""
    per_epoch: int
    """Steps of one of them."""
    whole_epochs: bool
    gaps: int | None
    """Epochs whose end was followed by another step, so that what lies between was seen; None where nothing does."""
    settled_after: int
    """Steps of the warm-up, beside the first."""
    warmup_seconds: float
    timed: list[float]
    """Seconds of each later step but the first of an epoch, which validation, reports and checkpoints come before."""
    timed_steps: list[int]
    """Numbers of these steps: 1 is the second step, whose length is the time since the first."""
    between_seconds: float
    """Time before the first steps of epochs, without a step each."""


Marks = Sequence[tuple[int, float]]
"""Numbers of steps, each with the seconds at which a device had computed so many."""


def step_clock(
    ends: Sequence[float], passes: Sequence[SeenPass] = (), *, ended_early: bool = False, marks: Marks | None = None
) -> StepClock:
    """Compute the clock from the seconds at which steps ended, and the passes over the data in which they were made.

    `ended_early`: the number of steps was not the script's decision. An epoch of one step, as a round of a booster, has
    all that belongs to it in the time of that step. `marks`: of steps that a device computes, whose ends are not known:
    each has the mean time of its block, and those after the last mark have none.
    """
    lengths = [after - before for before, after in pairwise(ends)]
    if marks is not None:
        lengths = _block_means(marks)
    total, epochs = len(ends), pass_steps(passes, len(ends))
    of_one = set(epochs) == {1}
    whole = len(set(epochs)) == 1 and sum(epochs) == total and not ended_early
    starts = {after.start - 1 for before, after in pairwise(passes) if before.finished}
    first_steps = set() if of_one else {number for number in starts if 0 <= number < len(lengths)}
    settled = _settled(lengths) if marks is None else max(_settled(lengths), min(FIRST_WAITED, len(lengths)))
    first_steps = {number for number in first_steps if number < len(lengths)}
    timed_steps = [number + 1 for number in range(settled, len(lengths)) if number not in first_steps]
    timed = [lengths[number - 1] for number in timed_steps]
    step = statistics.fmean(timed) if timed else 0.0
    return StepClock(
        epochs=len(epochs) if whole else 1,
        per_epoch=epochs[0] if whole else total,
        whole_epochs=whole,
        gaps=None if whole and of_one else len(epochs) - 1 if whole else 0,
        settled_after=settled,
        warmup_seconds=sum(length for number, length in enumerate(lengths[:settled]) if number not in first_steps),
        timed=timed,
        timed_steps=timed_steps,
        between_seconds=sum(max(0.0, lengths[number] - step) for number in first_steps),
    )


def _block_means(marks: Marks) -> list[float]:
    """Return the mean time of a step of its block, for each step from the second on."""
    return [
        (at - began) / (steps - before)
        for (before, began), (steps, at) in pairwise(marks)
        for _ in range(before, steps)
    ]


def pass_steps(passes: Sequence[SeenPass], total: int) -> list[int]:
    """Return steps of each pass that was finished: up to the first batch of the next one, or to the end."""
    end_steps = [*(seen_pass.start for seen_pass in passes[1:]), total]
    return [end - seen_pass.start for seen_pass, end in zip(passes, end_steps, strict=False) if seen_pass.finished]


def _settled(lengths: Sequence[float]) -> int:
    """Return the step from which on their time has settled: at latest with the later half."""
    half = len(lengths) // 2
    if not half:
        return 0
    later = statistics.median(lengths[half:])
    lasting = (max(lengths[first], statistics.median(lengths[first : first + 3])) for first in range(half))
    return next((first for first, seconds in enumerate(lasting) if seconds <= SETTLED * later), half)
