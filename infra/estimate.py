"""Estimates of a measurement's duration, from the durations of earlier runs: a range, or None. Pure.

Each side of a measurement (an arm with a number of workers) is estimated from its own earlier runs; nothing is assumed
for a side without any. Starting a cluster and building its image are in no run, and so not in the estimate.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from compare.words import duration
from infra.settings.settings import Settings
from training.contract.arms import RAY
from training.contract.recipe import Recipe
from training.contract.timed import Timed, scaled

MOST_RUNS = 8
"""The number of newest runs that count for a side, because what a machine did long ago says less."""
OF_ONE_RUN = 0.25
"""The margin around the time of a single run, as a fraction of it: one run says nothing about the spread."""
BETWEEN_SECONDS = 2.0
"""The shortest pause in seconds between two runs. Runs of `rwi try` have no update between them, and shorter pauses."""
LONGEST_BETWEEN_SECONDS = 60.0
"""The longest pause in seconds that counts. A longer pause was a break, or waited for another measurement."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A range of durations in seconds."""

    low: float
    high: float

    def __str__(self) -> str:
        """Return the range in words, such as `14 to 17 min`."""
        return duration(self.low, self.high)

    @property
    def middle(self) -> float:
        """Return the middle of the range."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, kw_only=True)
class Side:
    """An arm with its number of workers."""

    arm: str
    workers: int
    name: str
    """The arm's name, followed by the number of workers if this number is not the stack's."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The parts of a measurement that determine its duration."""

    recipe: Recipe
    sides: tuple[Side, ...]
    repeats: int
    """The least number of repeats."""
    most_repeats: int
    """The largest number of repeats, which is larger than the least only with `repeats auto`."""

    @property
    def runs(self) -> int:
        """Return the least number of runs, over all sides."""
        return self.repeats * len(self.sides)

    def of(self, repeats: int) -> "Wanted":
        """Return the measurement with this fixed number of repeats."""
        return replace(self, repeats=repeats, most_repeats=repeats)

    def without(self, *arms: str, curve: bool = True) -> "Wanted":
        """Return the measurement without these arms; with `curve` false, also without other numbers of workers."""
        kept = [side for side in self.sides if side.arm not in arms and (curve or side.workers == self.recipe.workers)]
        return replace(self, sides=tuple(kept))


@dataclass(frozen=True, kw_only=True)
class SideTime:
    """The time that one run of a side (an arm with its number of workers) takes."""

    side: Side
    known_runs: int
    """The number of earlier runs on which the estimate is based."""
    startup: Range
    rest: Range
    """The time from the first step on."""
    whole: Range


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated duration of a measurement. It exists only if every side has earlier runs."""

    sides: tuple[SideTime, ...]
    between: float
    """The pause between two runs, in seconds."""
    once: Range
    """The time before the first run, for imports. They take about as long as the start of a run."""
    total: Range


def wanted(settings: Settings) -> Wanted:
    """Return the measurement that the settings ask for."""
    own = settings.recipe.workers
    sides = [Side(arm=arm, workers=own, name=arm) for arm in settings.arms]
    sides += [Side(arm=RAY.name, workers=n, name=f"{RAY.name} with {n}") for n in settings.workers_curve]
    return Wanted(
        recipe=settings.recipe,
        sides=tuple(sides),
        repeats=settings.run.repeats.least,
        most_repeats=settings.run.repeats.most,
    )


def runs_of(side: Side, request: Wanted, known: Sequence[Timed]) -> list[Timed]:
    """Return the newest earlier runs of this side, with their times scaled to this recipe."""
    recipe = replace(request.recipe, workers=side.workers)
    scaled_runs = [scaled(timed, recipe) for timed in known if timed.arm == side.arm]
    newest = sorted((timed for timed in scaled_runs if timed), key=lambda timed: timed.began)
    return newest[-MOST_RUNS:]


def missing(request: Wanted, known: Sequence[Timed]) -> list[str]:
    """Return the names of the sides without earlier runs."""
    return [side.name for side in request.sides if not runs_of(side, request, known)]


def estimate(request: Wanted, known: Sequence[Timed]) -> Estimate | None:
    """Return the estimated duration of a measurement; None if any side has no earlier runs."""
    if not request.sides or missing(request, known):
        return None
    sides = tuple(_of_side(side, runs_of(side, request, known)) for side in request.sides)
    between, once = _between(known), min((each.startup for each in sides), key=lambda startup: startup.middle)
    pause = len(sides) * between
    total = Range(
        low=once.low + request.repeats * (pause + sum(each.whole.low for each in sides)),
        high=once.high + request.most_repeats * (pause + sum(each.whole.high for each in sides)),
    )
    return Estimate(sides=sides, between=between, once=once, total=total)


def _of_side(side: Side, runs: Sequence[Timed]) -> SideTime:
    return SideTime(
        side=side,
        known_runs=len(runs),
        startup=_range([run.startup for run in runs]),
        rest=_range([run.wall - run.startup for run in runs]),
        whole=_range([run.wall for run in runs]),
    )


def _range(values: Sequence[float]) -> Range:
    if len(values) == 1:
        return Range(low=values[0] * (1 - OF_ONE_RUN), high=values[0] * (1 + OF_ONE_RUN))
    return Range(low=min(values), high=max(values))


def _between(known: Sequence[Timed]) -> float:
    in_order = sorted(known, key=lambda timed: timed.began)
    pauses = [after.began - before.ended for before, after in pairwise(in_order)]
    short = [pause for pause in pauses if 0 <= pause <= LONGEST_BETWEEN_SECONDS]
    return max(BETWEEN_SECONDS, statistics.median(short)) if short else BETWEEN_SECONDS
