"""What more workers would give: a band that held on published curves, or nothing. Fitted to this stack's runs; pure.

From N workers, the most that were measured, to n the speedup is predicted to go on as it came there:
log S(n) = log S(N) + a · log(n / N). The line is the simplest form that the curves in tests/data justify:
`python -m tests.simulations.projection` compares it with Amdahl's law, Gunther's universal scalability law and Ernest's
model (Venkataraman et al., NSDI 2016), and calibrates the band. The band has two parts, which add up as squares:

- how far published curves left the line by n / N: `ERRORS`;
- the 90 % t interval of the line over the repeats.

Up to twice N there is a number with its band, up to four times a range, and beyond that nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

from compare.curve import ONE_REPEAT, Curve
from compare.intervals import Interval, mean_interval, t_quantile
from compare.measurement import NO_REPEAT, Measurement, Run
from compare.run_numbers import step_seconds, whole_seconds
from compare.schema import NextMeasurement, ProjectedPoint, Projection
from compare.value import Missing
from compare.words import duration, shown_times
from training.contract.arms import BASELINE, RAY, counted

CONFIDENCE = 0.9
NUMBER_UP_TO, RANGE_UP_TO = 2, 4
"""Times the most workers measured."""
ERRORS: Mapping[int, tuple[tuple[float, float], tuple[float, float]]] = {
    2: ((-0.80, 0.38), (-0.62, 0.27)),
    3: ((-0.77, 0.27), (-0.39, 0.62)),
}
"""By how many numbers of workers a line is fitted to (3: or more): the lowest and highest error of its exponent, up to
twice the most that were measured, and at four times. In leave-one-source-out over the curves of
tests/data/scaling-curves.csv 90 % of the points at either distance lie inside: tests/simulations/projection.py.
"""
STEEPEST = 1.1
"""No curve is predicted to rise more steeply than its workers to this power, unless it did where it was measured."""
KNEE = 1.1
"""The knee is the number of workers from which twice as many are less than so many times as fast."""
LEAST_SHARE = 8
"""Images (or what else a step takes) a worker below which nothing is projected, because a step is overhead there."""


@dataclass(frozen=True)
class Line:
    """The straight line of the logarithms through the most workers and the next number of at most half as many."""

    speedups: Mapping[int, Sequence[float]]
    """Over one process, of each repeat, by number of workers: 1 and others, ascending."""

    @property
    def most(self) -> int:
        """Return the most workers that were measured."""
        return max(self.speedups)

    @cached_property
    def now(self) -> Interval:
        """Return the logarithm of the speedup with the most workers."""
        return _interval([math.log(speedup) for speedup in self.speedups[self.most]])

    @cached_property
    def slope(self) -> Interval:
        """Return the exponent that is predicted to go on."""
        return self.exponent(max(number for number in self.speedups if 2 * number <= self.most), self.most)

    def exponent(self, before: int, after: int) -> Interval:
        """Return the exponent between two numbers of workers that were measured."""
        pairs = zip(self.speedups[before], self.speedups[after], strict=True)
        return _interval([math.log(more / less) / math.log(after / before) for less, more in pairs])

    def band(self, workers: int) -> Interval:
        """Return the speedup with more workers than were measured, at most four times as many: 90 % lie inside."""
        distance = math.log(workers / self.most)
        (low, high), noise = self.errors(len(self.speedups), distance), self.noise(distance)
        centre = self.now.centre + self.slope.centre * distance
        return Interval(centre - math.hypot(low, noise), centre, centre + math.hypot(high, noise)).mapped(math.exp)

    def noise(self, distance: float) -> float:
        """Return half of the interval of the line: of its parts the sum, which is exact where both err alike."""
        return self.now.upper - self.now.centre + distance * (self.slope.upper - self.slope.centre)

    def errors(self, numbers: int, distance: float) -> tuple[float, float]:
        """Return how far curves fall below and rise above a line of so many numbers of workers, as logarithms;
        `distance` is the logarithm of workers ÷ most workers."""
        near, far = ERRORS[min(numbers, 3)]
        doublings = distance / math.log(2)
        low, high = (
            math.log(2) * (at_two * min(doublings, 1) + (2 * at_four - at_two) * max(0.0, doublings - 1))
            for at_two, at_four in zip(near, far, strict=True)
        )
        return -low, min(high, (max(STEEPEST, self.slope.centre) - self.slope.centre) * distance)


def _interval(values: Sequence[float]) -> Interval:
    interval = mean_interval(values, CONFIDENCE)
    if interval is None:
        raise ValueError(ONE_REPEAT)
    return interval


def project(measurement: Measurement, curve: Curve | Missing) -> Projection | Missing:
    """Return the projection of complete repeats; missing where no line can be fitted."""
    reason = _why_missing(measurement)
    if reason:
        return Missing(reason)
    speedups = _speedups(measurement, curve)
    if len(next(iter(speedups.values()))) < 2:
        return Missing(f"{ONE_REPEAT}, and without one there is no band")
    line, share = Line(speedups), _most_workers(measurement)
    most = min(RANGE_UP_TO * line.most, share)
    if most <= line.most:
        unit = measurement.repeats[0][RAY.name].result.amount.unit
        return Missing(f"with more than {line.most} workers each would have fewer than {LEAST_SHARE} {unit} of a step")
    points = list(
        takewhile(lambda point: _has_answer(line, point), (_point(line, each) for each in _numbers(line.most, most)))
    )
    lowest, highest = _knee(line, points)
    return Projection(
        measured=list(line.speedups),
        exponent=line.slope.centre,
        speedup=math.exp(line.now.centre),
        points=points,
        knee_from=lowest,
        knee_to=highest,
        next=_next(line, most, measurement),
    )


def _why_missing(measurement: Measurement) -> str:
    repeats = measurement.repeats
    if not repeats:
        return NO_REPEAT
    if measurement.workload.searches:
        return "trials exchange nothing, and the line is of workers that do"
    if RAY.name not in repeats[0]:
        return f"{measurement.absent[RAY.name]}, and the line is of its runs"
    if measurement.recipe.workers < 2:
        return "one worker is one point, and a line takes two: set workers to 2 or more"
    baseline, ray = (repeats[0][arm.name].result for arm in (BASELINE, RAY))
    if baseline.amount.per_step != ray.amount.per_step:
        return "a step of one process has not the work of one of all workers, and the line is of strong scaling"
    steps = [step_seconds(repeat[arm.name].result) for repeat in repeats for arm in (BASELINE, RAY)]
    return "" if all(steps) else "a run has no timed step"


def _speedups(measurement: Measurement, curve: Curve | Missing) -> dict[int, Sequence[float]]:
    """Return Ray's by number of workers; of one process where Ray was not measured with one worker."""
    points = [] if isinstance(curve, Missing) else curve.points
    speedups = {point.workers: point.speedup.values for point in points if point.speedup}
    if measurement.recipe.workers not in speedups:
        pairs = [(_step(repeat[BASELINE.name]), _step(repeat[RAY.name])) for repeat in measurement.repeats]
        speedups = {measurement.recipe.workers: [baseline / all_workers for baseline, all_workers in pairs]}
    repeats = len(speedups[measurement.recipe.workers])
    return dict(sorted(({1: [1.0] * repeats} | speedups).items()))


def _step(run: Run) -> float:
    return step_seconds(run.result) or math.nan  # `_why_missing` has looked


def _most_workers(measurement: Measurement) -> int:
    per_step = measurement.repeats[0][RAY.name].result.amount.per_step
    return per_step // LEAST_SHARE if per_step else RANGE_UP_TO * measurement.recipe.workers


def _numbers(now: int, most: int) -> list[int]:
    """Return the numbers of workers to show: all, of many some, and twice as many as now."""
    step = max(1, now // 8)
    return sorted({*range(now + step, most + 1, step), most, min(NUMBER_UP_TO * now, most)})


def _point(line: Line, workers: int) -> ProjectedPoint:
    band, now, times = line.band(workers), math.exp(line.now.centre), workers / line.most
    return ProjectedPoint(
        workers=workers,
        speedup=band.centre if workers <= NUMBER_UP_TO * line.most else None,
        lower=band.lower,
        upper=band.upper,
        cost_lower=times * now / band.upper,
        cost_upper=times * now / band.lower,
    )


def _has_answer(line: Line, point: ProjectedPoint) -> bool:
    """Return whether the band does not hold both *faster than now* and *half as fast*."""
    now = math.exp(line.now.centre)
    return not (point.upper > now and point.lower <= now / 2)


def _knee(line: Line, points: Sequence[ProjectedPoint]) -> tuple[int | None, int | None]:
    """Return the least and the largest number of workers that the knee may be at; None: beyond what is projected."""
    measured = [(before, line.exponent(before, after)) for before, after in pairwise(line.speedups)]
    segments = [(workers, exponent.lower, exponent.upper) for workers, exponent in measured]
    now = math.exp(line.now.centre)
    edges = {line.most: (now, now)} | {point.workers: (point.lower, point.upper) for point in points}
    corners = [corner for corner in (line.most, NUMBER_UP_TO * line.most, max(edges)) if corner in edges]
    for before, after in pairwise(dict.fromkeys(corners)):
        low, high = (math.log(edges[after][each] / edges[before][each]) / math.log(after / before) for each in (0, 1))
        segments.append((before, low, high))
    least = math.log2(KNEE)
    lowest = next((workers for workers, low, _ in segments if low < least), None)
    return lowest, next((workers for workers, _, high in segments if high < least), None)


def _next(line: Line, most: int, measurement: Measurement) -> list[NextMeasurement]:
    """Return what would narrow the band at the most workers, the best a minute first; minutes by the runs' own
    clocks."""
    now, numbers, repeats = line.most, len(line.speedups), len(line.speedups[line.most])
    distance, twice = math.log(most / now), min(NUMBER_UP_TO * now, most)
    errors, noise = line.errors(numbers, distance), line.noise(distance)
    all_runs = [*(run for runs in measurement.by_arm.values() for run in runs), *measurement.of_curve]
    minutes = sum(whole_seconds(run.result) for run in all_runs) / 60
    of_point = sum(whole_seconds(run.result) for run in measurement.by_arm[RAY.name]) / 60
    choices: list[tuple[dict[str, int | str], float, tuple[float, float], float]]
    if measurement.context.is_auto:
        choices = [({"workers": twice}, minutes, line.errors(numbers, math.log(most / twice)), noise)]
    else:
        before, after = (t_quantile((1 + CONFIDENCE) / 2, n - 1) / math.sqrt(n) for n in (repeats, 2 * repeats))
        choices = [
            ({"repeats": 2 * repeats}, minutes, errors, noise * after / before),
            (
                {"workers": twice, "workersCurve": _joined(measurement.context.curve, now)},
                minutes + of_point,
                line.errors(numbers + 1, math.log(most / twice)),
                noise,
            ),
        ]
        if numbers == 2 and now >= 4:
            curve = _joined(measurement.context.curve, now // 2)
            choices.append(({"workersCurve": curve}, minutes + of_point, line.errors(3, distance), noise))
    measurements = [
        NextMeasurement(
            settings={key: str(value) for key, value in settings.items()},
            minutes=takes,
            narrows_by=math.exp(_width(errors, noise) - _width(errors_then, noise_then)),
        )
        for settings, takes, errors_then, noise_then in choices
    ]
    return sorted(measurements, key=lambda each: math.log(each.narrows_by) / each.minutes, reverse=True)


def _joined(curve: Sequence[int], more: int) -> str:
    return ",".join(map(str, sorted({*curve, more})))


def _width(errors: tuple[float, float], noise: float) -> float:
    return sum(math.hypot(error, noise) for error in errors)


def headline(projection: Projection) -> str:
    """Return the most workers that have a number, with their band; where there is none, what to measure."""
    numbers = [point for point in projection.points if point.speedup is not None]
    return _point_words(numbers[-1]) if numbers else f"{_no_number(projection)}. {_to_measure(projection)}"


def sentences(projection: Projection) -> list[str]:
    """Return the bands, the knee and what to measure next; no number stands without its band."""
    now = projection.measured[-1]
    near = [point for point in projection.points if point.workers <= NUMBER_UP_TO * now]
    shown = {point.workers: point for points in (near, projection.points) for point in points[-1:]}
    bands = [f"{_point_words(point)}, at {_cost(point, now)}" for point in shown.values()]
    return [*(bands or [_no_number(projection)]), _knee_said(projection), _to_measure(projection)]


def _point_words(point: ProjectedPoint) -> str:
    band = f"{shown_times(point.lower)} to {shown_times(point.upper)} times as fast as one process"
    probably = "" if point.speedup is None else f", probably {shown_times(point.speedup)} times"
    return f"{counted(point.workers, 'worker')}, each with CPUs of its own, would train {band}{probably}"


def _cost(point: ProjectedPoint, now: int) -> str:
    ends = f"{shown_times(point.cost_lower)} to {shown_times(point.cost_upper)}"
    return f"{ends} times what a step costs with {now}"


def _no_number(projection: Projection) -> str:
    now = projection.measured[-1]
    return f"no number for more than {counted(now, 'worker')}: they might be faster than these, or half as fast"


def _knee_said(projection: Projection) -> str:
    lowest, highest = projection.knee_from, projection.knee_to
    last = max([*projection.measured, *(point.workers for point in projection.points)])
    if lowest is None:
        where = f"beyond {counted(last, 'worker')}"
    elif highest is None:
        where = f"at {counted(lowest, 'worker')} or more"
    else:
        where = f"at {f'{lowest} to ' * (lowest < highest)}{counted(highest, 'worker')}"
    return f"the knee, from where twice the workers are less than {KNEE} times as fast, is {where}"


def _to_measure(projection: Projection) -> str:
    best = projection.next[0]
    settings = " ".join(f"{key}={value}" for key, value in best.settings.items())
    return f"`{settings}` would narrow this most a minute, in about {duration(60 * best.minutes)} here"
