"""What stopping would have saved a search that stopped nothing: its recorded curves, replayed in many orders. Pure.

A replay is no measurement: no process starts, the searching program takes no time, and trials run as fast beside each
other as they were recorded. That is the same for every rule, so a replay compares rules, and no arms.

The two rules are called asynchronous successive halving, and are not one rule:

- Optuna's `SuccessiveHalvingPruner` (optuna/pruners/_successive_halving.py): at its rungs, grace · reductionⁱ, a trial
  goes on if it is among the best n // reduction of the n that came there, itself included; with fewer than `reduction`
  if it is the best.
- Ray's `ASHAScheduler` (ray/tune/schedulers/async_hyperband.py): it is stopped if it is below the quantile
  1 - 1 / reduction of those that came there before; so the first always goes on.
"""

import heapq
import math
import random
import statistics
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

ORDERS = 300
LOW, HIGH = 0.05, 0.95
"""Quantiles over the orders that are shown beside the median."""


@dataclass(frozen=True)
class Curve:
    """The recorded curve of a trial that trained to its end."""

    seconds: Sequence[float]
    """When the trial made each report, in seconds since the trial's start."""
    values: Sequence[float]
    """The value of each report. Higher values are better."""
    ended: float
    """When the trial ended, in seconds since the trial's start."""


class StoppingRule(Protocol):
    """A rule that decides after each report of a trial whether the trial goes on."""

    def goes_on(self, trial: int, report: int, value: float) -> bool:
        """Return whether the trial goes on after its report of this number, from 1. Higher values are better."""


@dataclass
class OptunasRule:
    """The rule of Optuna's SuccessiveHalvingPruner."""

    grace: int
    reduction: int
    _rungs: list[list[float]] = field(default_factory=list)
    """For each rung, the values of the trials that reached the rung, ascending."""
    _next: dict[int, int] = field(default_factory=dict)
    """The next rung of each trial."""

    def goes_on(self, trial: int, report: int, value: float) -> bool:
        """Return whether the trial is among the best at each rung that the report reaches."""
        while report >= self.grace * self.reduction ** (rung := self._next.get(trial, 0)):
            if rung == len(self._rungs):
                self._rungs.append([])
            came = self._rungs[rung]
            insort(came, value)
            self._next[trial] = rung + 1
            if value < came[-max(1, len(came) // self.reduction)]:
                return False
        return True


@dataclass
class RaysRule:
    """The rule of Ray's ASHAScheduler, with one bracket."""

    grace: int
    reduction: int
    most: int
    """Number of reports of a trial that trains to its end."""
    _came: dict[int, list[float]] = field(default_factory=dict)
    """The values of the trials that reached a rung, ascending, by the rung's report, highest first."""
    _passed: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of a trial and a rung that the trial has reached."""

    def __post_init__(self) -> None:
        self._came = {rung: [] for rung in reversed(rungs_of(self.grace, self.reduction, self.most))}

    def goes_on(self, trial: int, report: int, value: float) -> bool:
        """Return whether the trial is good enough at the highest rung that it reaches, compared with earlier trials."""
        for rung, came in self._came.items():
            if report < rung or (trial, rung) in self._passed:
                continue
            is_behind = bool(came) and value < quantile(came, 1 - 1 / self.reduction)
            self._passed.add((trial, rung))
            insort(came, value)
            return not is_behind
        return True


@dataclass(frozen=True)
class Replay:
    """How a search would have gone with its trials in one order."""

    epochs: int
    """Number of epochs (reports) of all trials."""
    seconds: float
    """Seconds from the start of the first trial to the end of the last one."""
    best: float | None
    """Best last value of the trials that were not stopped; None if all were stopped."""


@dataclass(frozen=True)
class Middle:
    """Median of a number over all orders of the trials, and the quantiles `LOW` and `HIGH`."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Replays:
    """The results of all orders of the trials with one rule."""

    rule: str
    epochs: Middle
    seconds: Middle
    finds_best: float
    """Share of the orders in which the best trial is not stopped."""


def replays(curves: Sequence[Curve], slots: int, grace: int, reduction: int) -> list[Replays]:
    """Return the results of replaying the curves without a rule and with each rule, all in the same orders. `slots`:
    number of trials that run at a time."""
    most = max(len(curve.values) for curve in curves)
    rungs, orders = rungs_of(grace, reduction, most), _orders(len(curves))
    rules: dict[str, Callable[[], StoppingRule | None]] = {
        "nothing stopped": lambda: None,
        "Optuna's SuccessiveHalvingPruner": lambda: OptunasRule(grace, reduction),
        "Ray's ASHAScheduler": lambda: RaysRule(grace, reduction, most),
    }
    best = max(curve.values[-1] for curve in curves)
    by_rule = {
        name: [replay([curves[number] for number in order], slots, make(), rungs) for order in orders]
        for name, make in rules.items()
    }
    return [
        Replays(
            rule=name,
            epochs=_middle([each.epochs for each in of_rule]),
            seconds=_middle([each.seconds for each in of_rule]),
            finds_best=statistics.fmean(each.best == best for each in of_rule),
        )
        for name, of_rule in by_rule.items()
    ]


def replay(curves: Sequence[Curve], slots: int, rule: StoppingRule | None, rungs: Sequence[int]) -> Replay:
    """Return how the search goes if the trials start in this order, each as soon as a slot is free.

    `rungs`: the numbers of the reports after which the rule is asked, ascending. No rule stops a trial after another
    report. The rule is not asked after a trial's last report, because the trial has then ended.
    """
    waiting = iter(range(len(curves)))
    events: list[tuple[float, int, int, float]] = []
    """Entries of: the time of an event, the trial, the number of the trial's report, and the start of the trial."""

    def expect(trial: int, after: int, began: float) -> None:
        curve = curves[trial]
        last = len(curve.values)
        report = next((rung for rung in rungs if after < rung < last), last) if rule else last
        heapq.heappush(
            events, (began + (curve.ended if report == last else curve.seconds[report - 1]), trial, report, began)
        )

    def begin(at: float) -> None:
        if (trial := next(waiting, None)) is not None:
            expect(trial, 0, at)

    for _ in range(slots):
        begin(0.0)
    epochs, now = 0, 0.0
    finished: list[float] = []
    while events:
        now, trial, report, began = heapq.heappop(events)
        values = curves[trial].values
        is_last = report == len(values)
        if not is_last and rule and rule.goes_on(trial, report, values[report - 1]):
            expect(trial, report, began)
            continue
        epochs += report
        finished += [values[-1]] if is_last else []
        begin(now)
    return Replay(epochs=epochs, seconds=now, best=max(finished, default=None))


def rungs_of(grace: int, reduction: int, most: int) -> list[int]:
    """Return the numbers of reports after which rules are asked: grace · reductionⁱ, up to the most of a trial."""
    rungs = [grace]
    while rungs[-1] * reduction <= most:
        rungs.append(rungs[-1] * reduction)
    return rungs


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of one or more ascending values, interpolated linearly, as numpy does by default."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _orders(number: int) -> list[list[int]]:
    rng = random.Random(number)  # noqa: S311 - no secret
    return [rng.sample(range(number), number) for _ in range(ORDERS)]


def _middle(values: Sequence[float]) -> Middle:
    ordered = sorted(values)
    return Middle(statistics.median(ordered), quantile(ordered, LOW), quantile(ordered, HIGH))
