"""Seconds of a run: a step, an epoch, the whole clock as `fixed + epochs · perEpoch`; where two clocks meet. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from compare.intervals import Interval, ratio_interval
from compare.schema import BreakEven
from training.contract.result import Steps, TrainingResult
from training.contract.workload import Target

MOST_EPOCHS = 10_000
"""What the setting `epochs` allows: a break-even beyond it is none."""


def step_seconds(result: TrainingResult) -> float | None:
    """Mean timed step in seconds; None when every step was warm-up."""
    if not result.seconds.train or not result.steps.timed:
        return None
    return result.seconds.train / result.steps.timed


def epoch_seconds(result: TrainingResult) -> float | None:
    """Steady-state seconds of an epoch's steps: warm-up steps, which are not timed, count as the mean timed step."""
    mean = step_seconds(result)
    return None if mean is None else mean * result.steps.per_epoch


def whole_seconds(result: TrainingResult) -> float:
    """Start of the process or container to the result, without what only our own probes took."""
    return result.seconds.wall - result.seconds.probe


def seconds_to_score(result: TrainingResult, score: float) -> float | None:
    """Training seconds until the score that training follows was first at least `score`; None if it never was."""
    return next((point.seconds for point in result.curve if point.score >= score), None)


def seconds_to_target(result: TrainingResult, target: Target | None) -> float | None:
    """Seconds from the start of a run until it first reported what has to be reached; None if it never did."""
    points = result.reported.get(target.name, []) if target else []
    return next((point.seconds for point in points if target and target.is_reached(point.value)), None)


def counted_alike(results: Sequence[TrainingResult]) -> list[TrainingResult]:
    """Count alike: if any run lacks epoch boundaries, treat each run as one epoch."""
    if all(result.steps.whole_epochs for result in results):
        return list(results)
    return [
        replace(result, epochs_completed=min(1, result.epochs_completed), steps=_as_one(result)) for result in results
    ]


def _as_one(result: TrainingResult) -> Steps:
    total = result.steps.per_epoch * result.epochs_completed
    return replace(result.steps, per_epoch=total, whole_epochs=False, gaps=0)


@dataclass(frozen=True)
class Clock:
    """A run's whole clock. `fixed`: start, warm-up beyond its steps, test, shut-down; what is paid once."""

    epochs: int
    whole: float
    per_epoch: float | None
    """Steps, validation, reports and checkpoints of an epoch; None when no step was timed, or nothing that follows the
    steps of an epoch was: what lies between epochs is seen in one epoch fewer than were trained."""

    @property
    def fixed(self) -> float | None:
        """Seconds that the number of epochs does not change."""
        return None if self.per_epoch is None else self.whole - self.epochs * self.per_epoch

    def at(self, epochs: int) -> float | None:
        """Seconds from start to result of so many epochs: measured where they were trained, else by the two parts."""
        if epochs == self.epochs:
            return self.whole
        if self.per_epoch is None or self.fixed is None:
            return None
        return self.fixed + epochs * self.per_epoch


def clock_of(result: TrainingResult) -> Clock:
    """The whole clock of a run, from its own phases."""
    epochs, steps = result.epochs_completed, epoch_seconds(result)
    gaps = epochs if result.steps.gaps is None else result.steps.gaps
    if steps is None or not gaps:
        return Clock(epochs, whole_seconds(result), None)
    parts = (result.seconds.validation, result.seconds.report, result.seconds.checkpoint)
    return Clock(epochs, whole_seconds(result), steps + sum(seconds or 0.0 for seconds in parts) / gaps)


Pair = tuple[Clock, Clock]
"""Of two arms' runs in one repeat."""


def ratios_at(pairs: Sequence[Pair], epochs: int) -> list[float]:
    """The first clock by the second at so many epochs; none unless every pair has both, above 0.

    A ratio of the pairs that are left would have the interval of another measurement.
    """
    both = [(above.at(epochs), below.at(epochs)) for above, below in pairs]
    ratios = [above / below for above, below in both if above and below and above > 0 and below > 0]
    return ratios if len(ratios) == len(pairs) else []


def ratios_per_epoch(pairs: Sequence[Pair]) -> list[float]:
    """Return the limit of that ratio for many epochs, per repeat; empty if one lacks it."""
    ratios = [above.per_epoch / below.per_epoch for above, below in pairs if above.per_epoch and below.per_epoch]
    return ratios if len(ratios) == len(pairs) else []


def break_even(pairs: Sequence[Pair]) -> BreakEven | None:
    """Return from which epoch on the second clock stays below the first; None if an epoch was not timed."""
    if not ratios_per_epoch(pairs):
        return None

    @cache  # the three are looked for at mostly the same numbers of epochs
    def at(epochs: int) -> tuple[list[float], Interval | None]:
        ratios = ratios_at(pairs, epochs)
        return ratios, ratio_interval(ratios)

    def stays_from(end: Callable[[Interval], float]) -> int | None:
        def is_ahead(epochs: int) -> bool:
            ratios, interval = at(epochs)
            return (end(interval) if interval else ratios[0] if end is _centre and ratios else 0.0) > 1

        return _first_that_stays(is_ahead)

    return BreakEven(
        probably=stays_from(_centre),
        possibly=stays_from(lambda interval: interval.upper),
        surely=stays_from(lambda interval: interval.lower),
    )


def _centre(interval: Interval) -> float:
    return interval.centre


def _first_that_stays(is_ahead: Callable[[int], bool]) -> int | None:
    """The least number of epochs from which it is true up to `MOST_EPOCHS`, looking every 5 %; None: not even there."""
    ahead, behind = MOST_EPOCHS, 0
    if not is_ahead(ahead):
        return None
    while ahead > 1 and not behind:
        before = max(1, min(ahead - 1, int(ahead / 1.05)))
        ahead, behind = (before, 0) if is_ahead(before) else (ahead, before)
    while ahead - behind > 1 and behind:
        middle = (ahead + behind) // 2
        ahead, behind = (middle, behind) if is_ahead(middle) else (ahead, middle)
    return ahead
