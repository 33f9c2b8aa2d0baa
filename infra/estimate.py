"""How long a measurement will probably take, from what runs took before: a range, or nothing. Pure.

Each side of a measurement (an arm with a number of workers) has its own earlier runs; of a side without any nothing is
assumed. What a cluster and its image take to come up is in no run, and so not in here.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from infra.settings.settings import Settings
from training.contract.arms import RAY
from training.contract.recipe import Recipe
from training.contract.timed import Timed, scaled

MOST_RUNS = 8
"""Of a side, the newest: what a machine did long ago says less."""
OF_ONE_RUN = 0.25
"""Of its time, to both sides: one run says nothing of how far the next one lies from it."""
BETWEEN_SECONDS = 2.0
"""From the end of a run to the start of the next, at least: those of `make try` have no update between them."""
LONGEST_BETWEEN_SECONDS = 60.0
"""What is longer was a pause, or waited for another measurement."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Seconds."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Of it."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, kw_only=True)
class Side:
    """An arm with its number of workers."""

    arm: str
    workers: int
    name: str
    """The arm's, and of other workers than the stack's their number, too."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A measurement, as far as its time goes."""

    recipe: Recipe
    sides: tuple[Side, ...]
    repeats: int

    @property
    def runs(self) -> int:
        """Of all sides."""
        return self.repeats * len(self.sides)

    def without(self, *arms: str, curve: bool = True) -> "Wanted":
        """Less the sides of these arms, or those of the workers' curve."""
        kept = [side for side in self.sides if side.arm not in arms and (curve or side.workers == self.recipe.workers)]
        return replace(self, sides=tuple(kept))


@dataclass(frozen=True, kw_only=True)
class SideTime:
    """A run of a side."""

    side: Side
    known_runs: int
    """From which it follows."""
    startup: Range
    rest: Range
    """After the first step."""
    whole: Range


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of a measurement of which every side has a basis."""

    sides: tuple[SideTime, ...]
    between: float
    """From a run to the next."""
    once: Range
    """Before the first run: imports, which take about as long as the start of a run."""
    total: Range


def wanted(settings: Settings) -> Wanted:
    """What the settings ask for."""
    own = settings.recipe.workers
    sides = [Side(arm=arm, workers=own, name=arm) for arm in settings.arms]
    sides += [Side(arm=RAY.name, workers=n, name=f"{RAY.name} with {n}") for n in settings.workers_curve]
    return Wanted(recipe=settings.recipe, sides=tuple(sides), repeats=settings.repeats)


def runs_of(side: Side, request: Wanted, known: Sequence[Timed]) -> list[Timed]:
    """The newest earlier runs that say what one of this side takes, each as it would be of this recipe."""
    recipe = replace(request.recipe, workers=side.workers)
    scaled_runs = [scaled(timed, recipe) for timed in known if timed.arm == side.arm]
    newest = sorted((timed for timed in scaled_runs if timed), key=lambda timed: timed.began)
    return newest[-MOST_RUNS:]


def missing(request: Wanted, known: Sequence[Timed]) -> list[str]:
    """The sides of which nothing is known."""
    return [side.name for side in request.sides if not runs_of(side, request, known)]


def estimate(request: Wanted, known: Sequence[Timed]) -> Estimate | None:
    """None where some side has no basis."""
    if not request.sides or missing(request, known):
        return None
    sides = tuple(_of_side(side, runs_of(side, request, known)) for side in request.sides)
    between, once = _between(known), min((each.startup for each in sides), key=lambda startup: startup.middle)
    pauses = request.runs * between
    total = Range(
        low=once.low + pauses + request.repeats * sum(each.whole.low for each in sides),
        high=once.high + pauses + request.repeats * sum(each.whole.high for each in sides),
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
