"""Ray with several numbers of workers: what each adds over the one before, and from where on that does not pay. Pure.

The points are runs of the same arm, recipe and seeds that differ in `workers` alone, made in turns with all others.
What they say of each other is decided as everywhere: ratios within a repeat, the 95 % t interval of their logarithms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from compare import fairness, quiet
from compare.entries import ZERO
from compare.intervals import CONFIDENCE, corrected, estimate, ratio_interval, spread
from compare.measurement import Measurement, Run, of_repeats, workers_of
from compare.run_numbers import clock_of, cost, cpu_hours, link, price, step_seconds, whole_seconds
from compare.schema import CurvePoint, Estimate, Spread
from compare.value import Missing
from training.contract.arms import BASELINE, RAY, counted

NOT_ASKED = "workersCurve is none"
ONE_REPEAT = "one repeat has no interval"
Repeat = Mapping[int, Run]
"""Ray's runs of one repeat, by number of workers. The repeat has a run for every number."""


@dataclass(frozen=True)
class Curve:
    """The points that were measured, and what they say."""

    points: list[CurvePoint]
    """The points, by ascending number of workers."""
    stops_paying_at: int | Missing
    costs_more_from: int | Missing


def curve(measurement: Measurement) -> Curve | Missing:
    """Return the workers' curve of the complete repeats, or why there is none."""
    if not measurement.context.curve:
        return Missing(NOT_ASKED)
    repeats = _complete(measurement)
    problem = _problem(measurement, repeats) if repeats else "no repeat has a run of every number of workers"
    if problem:
        return Missing(problem)
    numbers = sorted(repeats[0])
    before = [None, *numbers[:-1]]
    points = [_point(measurement, repeats, *each) for each in zip(before, numbers, strict=True)]
    return Curve(points, _stops_paying_at(points), costs_more_from(points))


def _complete(measurement: Measurement) -> list[Repeat]:
    """Return the repeats that have a run for every number of workers."""
    points = {(run.repeat, workers_of(run)): run for run in measurement.of_curve}
    repeats: list[Repeat] = []
    for own in measurement.by_arm[RAY.name]:
        runs_by_workers = {number: points.get((own.repeat, number)) for number in measurement.context.curve}
        runs = {workers_of(own): own} | {number: run for number, run in runs_by_workers.items() if run}
        repeats += [runs] if len(runs) == len(runs_by_workers) + 1 else []
    return repeats


def _problem(measurement: Measurement, repeats: Sequence[Repeat]) -> str:
    """Return why the points can't be compared with each other; "" if they can."""
    for number in measurement.context.curve:
        context = replace(measurement.context.at(number), arms=(RAY.name,))
        point = of_repeats([{RAY.name: repeat[number]} for repeat in repeats], context)
        for name, check in fairness.verify(point, quiet.observe(point).check).checks.items():
            if check.passed is False:
                return f"not comparable: {name} failed with {counted(number, 'worker')}: {check.why}"
    by_workers = [{str(number): run for number, run in repeat.items()} for repeat in repeats]
    checks = fairness.verify_points(measurement.workload, by_workers).checks.items()
    return next((f"not comparable: {name} failed: {why}" for name, (passed, why) in checks if not passed), "")


def _point(measurement: Measurement, repeats: Sequence[Repeat], before: int | None, number: int) -> CurvePoint:
    context, runs = measurement.context.at(number), [repeat[number] for repeat in repeats]
    baselines = {run.repeat: run for run in measurement.by_arm[BASELINE.name]}
    speedup = _ratio([(_step(baselines[run.repeat]), _step(run)) for run in runs])
    gain = cost_ratio = None
    if before is not None:
        epochs = min(run.result.epochs_completed for repeat in repeats for run in repeat.values())
        clocks = [[clock_of(repeat[each].result).at(epochs) for each in (before, number)] for repeat in repeats]
        prices = [
            [price(repeat[each], measurement.context.at(each)) for each in (number, before)] for repeat in repeats
        ]
        gain, cost_ratio = _ratio(clocks), _ratio(prices, ("cheaper", "dearer"))
    return CurvePoint(
        workers=number,
        step_seconds=_spread([_step(run) for run in runs]),
        wall_seconds=spread([whole_seconds(run.result) for run in runs]),
        cpu_hours=spread([cpu_hours(run, context) for run in runs]),
        cost=_spread([cost(run, context) for run in runs]),
        speedup=speedup,
        gain=gain,
        cost_ratio=cost_ratio,
        runs=[link(run) for run in runs],
    )


def _step(run: Run) -> float | None:
    return step_seconds(run.result)


def _spread(values: Sequence[float | None]) -> Spread | None:
    present = [value for value in values if value is not None]
    return spread(present) if present and len(present) == len(values) else None


def _ratio(pairs: Sequence[Sequence[float | None]], words: tuple[str, str] = ("slower", "faster")) -> Estimate | None:
    """Return the estimate of first value ÷ second value over the pairs; None unless all pairs have both values."""
    ratios = [above / below for above, below in pairs if above and below]
    return estimate(ratios, words) if ratios and len(ratios) == len(pairs) else None


def _stops_paying_at(points: Sequence[CurvePoint]) -> int | Missing:
    """Return the first number whose gain over the one before is not certain at 95 %, or why there is none."""
    for point in points[1:]:
        if point.gain is None or point.gain.lower is None:
            return Missing(ONE_REPEAT if point.gain else "no time was measured")
        if point.gain.lower <= 1:
            return point.workers
    return Missing("each number of workers is faster from start to result than the one before, with 95 % confidence")


def costs_more_from(points: Sequence[CurvePoint]) -> int | Missing:
    """Return the first number of workers beyond which a run costs more, with 95 % confidence, or why there is none.
    Several numbers are tested, so the confidence is corrected for them.

    `_stops_paying_at` needs no such correction: it tests the numbers in a fixed order and names only the first that
    fails.
    """
    confidence = corrected(CONFIDENCE, max(1, len(points) - 1))
    for before, point in pairwise(points):
        if point.cost_ratio is None or point.cost_ratio.lower is None:
            return Missing(ONE_REPEAT if point.cost_ratio else ZERO)
        interval = ratio_interval(point.cost_ratio.values, confidence)
        if interval and interval.lower > 1:
            return before.workers
    return Missing("with no number of workers a run costs more than with the number before, with 95 % confidence")
