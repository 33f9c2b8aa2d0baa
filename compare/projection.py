"""What more workers would give: a band that held on published curves, or nothing. Fitted to this stack's runs; pure.

From N workers, the most that were measured, to n the speedup is predicted half-way, in logarithms, between the line
log S(n) = log S(N) + a · log(n / N) of the slope until there and Amdahl's law through one process and N workers. On
published curves of strong scaling the one is too high and the other too low: `python -m tests.simulations.projection`
compares them with Gunther's universal scalability law and Ernest's model (Venkataraman et al., NSDI 2016), and
calibrates the band. The band has two parts, which add up as squares:

- how far published curves left the prediction by n / N: `ERRORS`;
- the 90 % t interval of the prediction over the repeats.

Up to twice N there is a number with its band, up to four times a range, and beyond that nothing.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

from compare.curve import ONE_REPEAT, Curve
from compare.intervals import Interval, mean_interval, t_quantile
from compare.measurement import NO_REPEAT, Measurement, Repeat, Run
from compare.run_numbers import price, reserved, step_seconds
from compare.schema import NextMeasurement, ProjectedPoint, Projection
from compare.stopping import longest_repeat, most_seconds
from compare.value import Missing
from compare.words import duration, shown_times
from training.contract.arms import BASELINE, RAY, counted
from training.contract.recipe import MOST_WORKERS
from training.contract.repeats import MOST_REPEATS

CONFIDENCE = 0.9
NUMBER_UP_TO, RANGE_UP_TO = 2, 4
"""Up to how many times the most measured workers a projection gives a number, and up to how many times a range."""
ERRORS: Mapping[int, tuple[tuple[float, float], tuple[float, float]]] = {
    2: ((-0.82, 0.64), (-0.68, 0.40)),
    3: ((-0.82, 0.38), (-0.41, 0.43)),
}
"""The lowest and highest error of the exponent, up to twice the most measured workers and at four times as many. The
key is the number of numbers of workers that the trend is fitted to (3 stands for 3 or more).

In leave-one-source-out over the curves of tests/data/scaling-curves.csv 90 % of the average source's points, and of all
points, lie inside at either distance: tests/simulations/projection.py.
"""
STEEPEST = 1.1
"""The part of the band that is from published curves ends where the speedup rises with the number of workers to this
power, or as steeply as the measured speedups did."""
KNEE = 1.1
"""The knee is the number of workers from which on twice as many workers are less than this many times as fast."""
WHOLE_REPEATS = 3
"""A curve with at least this many complete repeats is used as a whole."""
LEAST_GAIN = 1.25
"""A measurement is only proposed if it makes the band narrower by at least this factor: what is left is at most 80 % of
it. Half of that is a shift of each end by 10 %, which seldom changes what one would do, and a measurement takes minutes
to hours."""
LEAST_SHARE = 8
"""The least images, or other units of a step, for each worker. With fewer a step is mostly overhead."""


@dataclass(frozen=True)
class Trend:
    """The speedup as a function of the number of workers, continued beyond the numbers that were measured."""

    speedups: Mapping[int, Sequence[float]]
    """Speedup over one process in each repeat, by number of workers, ascending. The first number is 1."""

    @property
    def most(self) -> int:
        """Return the most workers that were measured."""
        return max(self.speedups)

    @cached_property
    def now(self) -> Interval:
        """Return the logarithm of the speedup with the most workers, with its interval."""
        return _interval([math.log(speedup) for speedup in self.speedups[self.most]])

    @cached_property
    def slope(self) -> Interval:
        """Return the exponent between the most workers and the next lower number that is at most half of them."""
        return self.exponent(max(number for number in self.speedups if 2 * number <= self.most), self.most)

    def exponent(self, before: int, after: int) -> Interval:
        """Return the exponent between two numbers of workers that were measured."""
        pairs = zip(self.speedups[before], self.speedups[after], strict=True)
        return _interval([math.log(more / less) / math.log(after / before) for less, more in pairs])

    def gain(self, workers: int) -> Interval:
        """Return the logarithm of the gain of more workers over the most measured ones, by Amdahl's law."""
        pairs = zip(self.speedups[1], self.speedups[self.most], strict=True)
        return _interval([math.log(_amdahl(now / first, self.most, workers)) for first, now in pairs])

    def band(self, workers: int) -> Interval:
        """Return the speedup of more workers, at most four times the most measured, with the band of 90 % of points."""
        distance = math.log(workers / self.most)
        (low, high), noise = self.errors(len(self.speedups), distance), self.noise(workers)
        ahead = 0.5 * (distance * self.slope.centre + self.gain(workers).centre)
        high, centre = min(high, max(STEEPEST, self.slope.centre) * distance - ahead), self.now.centre + ahead
        return Interval(centre - math.hypot(low, noise), centre, centre + math.hypot(high, noise)).mapped(math.exp)

    def noise(self, workers: int) -> float:
        """Return half of the width of the interval of the prediction. The widths of its parts are added, which is exact
        if all parts err in the same direction."""
        slope, gain = (part.upper - part.centre for part in (self.slope, self.gain(workers)))
        return self.now.upper - self.now.centre + 0.5 * (math.log(workers / self.most) * slope + gain)

    @staticmethod
    def errors(numbers: int, distance: float) -> tuple[float, float]:
        """Return how far published curves fall below and rise above a trend, as logarithms. `numbers`: how many numbers
        of workers the trend is fitted to. `distance`: the logarithm of workers ÷ most measured workers."""
        near, far = ERRORS[min(numbers, 3)]
        doublings = distance / math.log(2)
        low, high = (
            math.log(2) * (at_two * min(doublings, 1) + (2 * at_four - at_two) * max(0.0, doublings - 1))
            for at_two, at_four in zip(near, far, strict=True)
        )
        return -low, high


def _amdahl(speedup: float, now: int, workers: int) -> float:
    """Return how many times as fast `workers` are as `now` are, by Amdahl's law, the serial part at least 0."""
    serial = max(0.0, (now / speedup - 1) / (now - 1))
    return workers / (1 + serial * (workers - 1)) * (1 + serial * (now - 1)) / now


def _interval(values: Sequence[float]) -> Interval:
    interval = mean_interval(values, CONFIDENCE)
    if interval is None:
        raise ValueError(ONE_REPEAT)
    return interval


def project(measurement: Measurement, curve: Curve | Missing) -> Projection | Missing:
    """Return the projection from the complete repeats, or why there is none."""
    reason = _why_missing(measurement)
    if reason:
        return Missing(reason)
    speedups = _speedups(measurement, curve)
    if len(next(iter(speedups.values()))) < 2:
        return Missing(f"{ONE_REPEAT}, and without one there is no band")
    trend, share = Trend(speedups), _most_workers(measurement)
    most = min(RANGE_UP_TO * trend.most, share)
    if trend.most == MOST_WORKERS:
        return Missing(f"no stack has more than {MOST_WORKERS} workers")
    if most <= trend.most:
        unit = measurement.repeats[0][RAY.name].result.amount.unit
        return Missing(f"with more than {trend.most} workers each would have fewer than {LEAST_SHARE} {unit} of a step")
    points = list(
        takewhile(
            lambda point: _has_answer(trend, point),
            (_point(trend, each, measurement) for each in _numbers(trend.most, most)),
        )
    )
    lowest, highest = _knee(trend, points)
    return Projection(
        measured=list(trend.speedups),
        exponent=trend.slope.centre,
        speedup=math.exp(trend.now.centre),
        points=points,
        knee_from=lowest,
        knee_to=highest,
        next=_next(trend, most, measurement),
    )


def _why_missing(measurement: Measurement) -> str:
    repeats = measurement.repeats
    if not repeats:
        return NO_REPEAT
    if measurement.workload.searches:
        return "trials exchange nothing, and a projection is of workers that do"
    if RAY.name not in repeats[0]:
        return f"{measurement.absent[RAY.name]}, and a projection is of its runs"
    if shared := measurement.context.oversubscription:
        return f"{shared}, and a projection is of workers with CPUs of their own"
    if measurement.recipe.workers < 2:
        return "one worker is one point, and a projection takes two: set workers to 2 or more"
    return _why_unlike(repeats)


def _why_unlike(repeats: Sequence[Repeat]) -> str:
    baseline, ray = (repeats[0][arm.name].result for arm in (BASELINE, RAY))
    if baseline.amount.per_step != ray.amount.per_step:
        return "a step of one process has not the work of one of all workers, and a projection is of strong scaling"
    steps = [step_seconds(repeat[arm.name].result) for repeat in repeats for arm in (BASELINE, RAY)]
    return "" if all(steps) else "a run has no timed step"


def _speedups(measurement: Measurement, curve: Curve | Missing) -> dict[int, Sequence[float]]:
    """Return the speedups of Ray by number of workers. If Ray was not measured with one worker, the speedup of one
    process, which is 1, stands there.

    If fewer than WHOLE_REPEATS repeats have every point of the curve, and more have every arm, only those of the arms
    are used: more than two repeats say more than a further number of workers.
    """
    points = [] if isinstance(curve, Missing) else curve.points
    speedups = {point.workers: point.speedup.values for point in points if point.speedup}
    if len(speedups.get(measurement.recipe.workers, [])) < min(WHOLE_REPEATS, len(measurement.repeats)):
        pairs = [(_step(repeat[BASELINE.name]), _step(repeat[RAY.name])) for repeat in measurement.repeats]
        speedups = {measurement.recipe.workers: [baseline / all_workers for baseline, all_workers in pairs]}
    repeats = len(speedups[measurement.recipe.workers])
    return dict(sorted(({1: [1.0] * repeats} | speedups).items()))


def _step(run: Run) -> float:
    return step_seconds(run.result) or math.nan  # `_why_missing` has looked


def _most_workers(measurement: Measurement) -> int:
    per_step = measurement.repeats[0][RAY.name].result.amount.per_step
    return min(per_step // LEAST_SHARE, MOST_WORKERS) if per_step else MOST_WORKERS


def _numbers(now: int, most: int) -> list[int]:
    """Return the numbers of workers above `now` to show, up to `most`: all of them if they are few, else some. Twice
    `now` is one of them, unless it is above `most`."""
    step = max(1, now // 8)
    return sorted({*range(now + step, most + 1, step), most, min(NUMBER_UP_TO * now, most)})


def _point(trend: Trend, workers: int, measurement: Measurement) -> ProjectedPoint:
    """Return what is said of a larger number of workers. The cost of a step grows with what the workers reserve. On a
    cluster it grows by less than the number of workers, because there is still one Ray head."""
    band, now, run = trend.band(workers), math.exp(trend.now.centre), measurement.repeats[0][RAY.name]
    before, after = (price(run, measurement.context.at(number)) for number in (trend.most, workers))
    times = after / before if before and after else workers / trend.most
    return ProjectedPoint(
        workers=workers,
        speedup=band.centre if workers <= NUMBER_UP_TO * trend.most else None,
        lower=band.lower,
        upper=band.upper,
        cost_lower=times * now / band.upper,
        cost_upper=times * now / band.lower,
    )


def _has_answer(trend: Trend, point: ProjectedPoint) -> bool:
    """Return whether the point's band says something: it must not hold both *faster* and *half as fast*."""
    now = math.exp(trend.now.centre)
    return not (point.upper > now and point.lower <= now / 2)


def _knee(trend: Trend, points: Sequence[ProjectedPoint]) -> tuple[int | None, int | None]:
    """Return the least and the largest number of workers of the knee; None beyond the projected numbers."""
    measured = [(before, trend.exponent(before, after)) for before, after in pairwise(trend.speedups)]
    segments = [(workers, exponent.lower, exponent.upper) for workers, exponent in measured]
    now = math.exp(trend.now.centre)
    edges = {trend.most: (now, now)} | {point.workers: (point.lower, point.upper) for point in points}
    corners = [corner for corner in (trend.most, NUMBER_UP_TO * trend.most, max(edges)) if corner in edges]
    for before, after in pairwise(dict.fromkeys(corners)):
        low, high = (math.log(edges[after][each] / edges[before][each]) / math.log(after / before) for each in (0, 1))
        segments.append((before, low, high))
    least = math.log2(KNEE)
    lowest = next((workers for workers, low, _ in segments if low < least), None)
    return lowest, next((workers for workers, _, high in segments if high < least), None)


def _next(trend: Trend, most: int, measurement: Measurement) -> list[NextMeasurement]:
    """Return which measurements would make the band at the most workers narrower, the best gain for each minute first.
    Only measurements that the settings' rules and the budget allow are returned. The minutes come from the longest
    repeat so far."""
    now, numbers, repeats = trend.most, len(trend.speedups), len(trend.speedups[trend.most])
    context, is_auto = measurement.context, measurement.context.is_auto
    distance, twice = math.log(most / now), min(NUMBER_UP_TO * now, most)
    errors, noise = trend.errors(numbers, distance), trend.noise(most)
    repeat, runs = longest_repeat(measurement), measurement.by_arm[RAY.name]
    of_point = statistics.fmean(run.result.seconds.wall for run in runs)
    choices: list[tuple[dict[str, int | str], float, tuple[float, float], float]] = []
    if not is_auto and 2 * context.repeats <= MOST_REPEATS:
        before, after = (_half_width(number) for number in (repeats, 2 * context.repeats))
        seconds = (2 * context.repeats - len(measurement.repeats)) * repeat
        choices.append(({"repeats": 2 * context.repeats}, seconds, errors, noise * after / before))
    if _has_room(measurement, twice):
        numbers_then, seconds = (numbers, 0.0) if is_auto else (numbers + 1, of_point)
        curve = {} if is_auto else {"workersCurve": _joined(context.curve, now)}
        errors_then = trend.errors(numbers_then, math.log(most / twice))
        choices.append(({"workers": twice, **curve}, context.repeats * (repeat + seconds), errors_then, noise))
    if not is_auto and numbers == 2 and now >= 4 and now // 2 not in context.curve:
        of_half = _joined(context.curve, now // 2)
        choices.append(
            ({"workersCurve": of_half}, context.repeats * (repeat + of_point), trend.errors(3, distance), noise)
        )
    measurements = [
        NextMeasurement(
            settings={key: str(value) for key, value in settings.items()},
            minutes=seconds / 60,
            narrows_by=math.exp(_width(errors, noise) - _width(errors_then, noise_then)),
        )
        for settings, seconds, errors_then, noise_then in choices
        if seconds <= most_seconds(context.settings)
    ]
    useful = [each for each in measurements if each.narrows_by > LEAST_GAIN]
    return sorted(useful, key=lambda each: math.log(each.narrows_by) / each.minutes, reverse=True)


def _half_width(repeats: int) -> float:
    """Return half of the width of the 90 % t interval with this number of repeats, in standard deviations."""
    return t_quantile((1 + CONFIDENCE) / 2, repeats - 1) / math.sqrt(repeats)


def _has_room(measurement: Measurement, workers: int) -> bool:
    """Return whether this number of workers can have CPUs of their own. On a cluster the answer is always yes, because
    how far the cluster can grow is not known here."""
    made_with = measurement.repeats[0][RAY.name].result.provenance
    cpus = min(made_with.cpus_allowed, made_with.cpu_quota or math.inf)
    return measurement.context.target != "local" or reserved(RAY.name, measurement.context.at(workers)).cpus <= cpus


def _joined(curve: Sequence[int], more: int) -> str:
    return ",".join(map(str, sorted({*curve, more})))


def _width(errors: tuple[float, float], noise: float) -> float:
    return sum(math.hypot(error, noise) for error in errors)


def headline(projection: Projection) -> str:
    """Return the projected speedup and band of the largest number of workers that has one. If there is none, return
    what to measure."""
    numbers = [point for point in projection.points if point.speedup is not None]
    if numbers:
        return _point_words(numbers[-1])
    to_measure = _to_measure(projection)
    return f"{_no_number(projection)}. {to_measure[:1].upper()}{to_measure[1:]}"


def sentences(projection: Projection) -> list[str]:
    """Return the bands, the knee and what to measure next, as sentences. Every number stands with its band."""
    now = projection.measured[-1]
    near = [point for point in projection.points if point.workers <= NUMBER_UP_TO * now]
    shown = {point.workers: point for points in (near, projection.points) for point in points[-1:]}
    bands = [f"{_point_words(point)}, at {_cost(point, now)}" for point in shown.values()]
    return [*(bands or [_no_number(projection)]), _knee_said(projection), _to_measure(projection)]


def _point_words(point: ProjectedPoint) -> str:
    low, high, centre = shown_times(point.lower, point.upper, point.speedup or point.upper)
    band = f"{low} to {high} times as fast as one process"
    probably = "" if point.speedup is None else f", probably {centre} times"
    return f"{counted(point.workers, 'worker')}, each with CPUs of its own, would train {band}{probably}"


def _cost(point: ProjectedPoint, now: int) -> str:
    return f"{' to '.join(shown_times(point.cost_lower, point.cost_upper))} times what a step costs with {now}"


def _no_number(projection: Projection) -> str:
    now = projection.measured[-1]
    return f"no number for more than {counted(now, 'worker')}: they might be faster than these, or half as fast"


def _knee_said(projection: Projection) -> str:
    lowest, highest = projection.knee_from, projection.knee_to
    last = max([*projection.measured, *(point.workers for point in projection.points)])
    if highest is None and lowest == projection.measured[0]:
        where = f"not known: it may be at {counted(lowest, 'worker')} already, or beyond {last}"
    elif lowest is None:
        where = f"beyond {counted(last, 'worker')}"
    elif highest is None:
        where = f"at {counted(lowest, 'worker')} or more"
    else:
        where = f"at {f'{lowest} to ' * (lowest < highest)}{counted(highest, 'worker')}"
    return f"the knee, from where twice the workers are less than {KNEE} times as fast, is {where}"


def _to_measure(projection: Projection) -> str:
    if not projection.next:
        return "nothing that this stack may measure within its budget would narrow this by a fifth"
    best = projection.next[0]
    settings = " ".join(f"{key}={value}" for key, value in best.settings.items())
    return f"`{settings}` would narrow this most a minute, in about {duration(60 * best.minutes)} here"
