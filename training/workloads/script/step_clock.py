"""The steps of a rank in the parts that a whole clock is made of: warm-up, timed steps, and what lies between. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SETTLED = 1.1
"""Most times the median of the later half that a settled step, and the median of three from it on, may take."""

FIRST_WAITED = 8
"""Number of steps after the first at each of which a device is waited for, to choose how often later."""


@dataclass(frozen=True, kw_only=True)
class SeenPass:
    """A pass over the data set on which the script trains."""

    start: int
    """Number of steps before the first batch of the pass."""
    finished: bool
    """True if the pass came to the end of the data set."""


@dataclass(frozen=True, kw_only=True)
class StepClock:
    """The times of the steps of one rank; the other ranks are in step with it."""

    epochs: int
    """Number of whole epochs; 1 for the run if the end of an epoch is unknown, or if no epoch was finished."""
    per_epoch: int
    """Number of steps of one epoch."""
    whole_epochs: bool
    gaps: int | None
    """Number of epochs followed by a step, which shows the time between them; None if nothing lies between."""
    settled_after: int
    """Number of warm-up steps in addition to the first."""
    warmup_seconds: float
    timed: list[float]
    """Seconds of each later step, except an epoch's first, which may have validation, reports and checkpoints."""
    timed_steps: list[int]
    """Numbers of the timed steps; 1 is the second step, whose length is the time since the first."""
    between_seconds: float
    """Seconds before the first steps of epochs, without the time of one step for each."""


Marks = Sequence[tuple[int, float]]
"""Pairs of a number of steps and the seconds at which a device had computed that many steps."""


def step_clock(
    ends: Sequence[float], passes: Sequence[SeenPass] = (), *, ended_early: bool = False, marks: Marks | None = None
) -> StepClock:
    """Return the clock computed from the seconds at which steps ended, and from the passes over the data in which they
    were made.

    `ended_early` is true if the script did not decide the number of steps. An epoch of one step, such as a round of a
    booster, has all its time in that step.

    `marks` are given for steps that a device computes, whose ends are unknown: each step has the mean time of its block
    (the steps between two marks), and those after the last mark have none.
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
    """Return, for each step from the second on, the mean time of the steps in its block, between two marks."""
    return [
        (at - began) / (steps - before)
        for (before, began), (steps, at) in pairwise(marks)
        for _ in range(before, steps)
    ]


def pass_steps(passes: Sequence[SeenPass], total: int) -> list[int]:
    """Return the number of steps of each finished pass: up to the first batch of the next pass, or to the end."""
    end_steps = [*(seen_pass.start for seen_pass in passes[1:]), total]
    return [end - seen_pass.start for seen_pass, end in zip(passes, end_steps, strict=False) if seen_pass.finished]


def _settled(lengths: Sequence[float]) -> int:
    """Return the first step from which on the steps' time has settled; at the latest the first of the later half."""
    half = len(lengths) // 2
    if not half:
        return 0
    later = statistics.median(lengths[half:])
    lasting = (max(lengths[first], statistics.median(lengths[first : first + 3])) for first in range(half))
    return next((first for first, seconds in enumerate(lasting) if seconds <= SETTLED * later), half)
