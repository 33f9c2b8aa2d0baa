"""What a run costs on capacity that may be interrupted, with the checkpoints that cost the least. Pure.

Every machine of a run is interrupted by itself, as a Poisson process; whichever is lost, the run ends, and starts again
from its newest checkpoint. How long another machine takes to come is not known, and nothing is paid meanwhile.
"""

import math
import statistics
from collections.abc import Iterator, Sequence

from compare.intervals import estimate, rule_of
from compare.measurement import Context, Measurement, Run, SpotTerms
from compare.run_numbers import HOUR, clock_of, cost, step_seconds, whole_seconds
from compare.schema import Spot, SpotArm, SpotCourse
from compare.value import Missing
from training.contract.arms import ARMS

NOT_ASKED = "priceSpotFactor and interruptionsPerHour are not set"
OF_TRIALS = "a search loses trials and not the whole run: that is not computed"
NO_START = "no step was seen, so it is not known what a start takes"
CHEAPER, DEARER = "cheaper", "dearer"
HOPELESS = 1000.0
"""A run that is expected to take this many times its undisturbed time hardly ever ends, so the expected time is not
given."""
FINE = 100
"""Each interval between checkpoints of up to this number of epochs is tried, and of longer ones the best with each
number of checkpoints up to this. No other one can be best up to FINE² epochs, and the setting allows no more."""
HALVINGS = 60
SMALLEST, LARGEST = 1e-12, 700.0
"""Below the first exponent a division by the rate of interruptions gives no useful number. Above the second one
math.exp raises an error."""


def spot_of(measurement: Measurement, why_nothing: str) -> Spot | Missing:
    """Return what each arm costs on spot capacity, and from which rate of interruptions on it costs more than on
    demand."""
    terms = measurement.context.spot
    if terms is None:
        return Missing(NOT_ASKED)
    if why_nothing or measurement.workload.searches:
        return Missing(why_nothing or OF_TRIALS)
    courses = {name: course for name in measurement.arms if (course := course_of(measurement.by_arm[name]))}
    if not courses:
        return Missing(NO_START)
    arms = {name: _arm(name, course, terms, measurement) for name, course in courses.items()}
    return Spot(factor=terms.factor, interruptions_per_hour=terms.interruptions_per_hour, arms=arms)


def _arm(name: str, course: SpotCourse, terms: SpotTerms, measurement: Measurement) -> SpotArm:
    context = measurement.context
    machines = machines_of(name, context)
    rate = machines * terms.interruptions_per_hour
    interval = best_interval(course, rate)
    seconds, alone = expected_seconds(course, rate, interval), whole(course)
    costs = [own * whole(course) / whole_seconds(run.result)
             for run in measurement.by_arm[name] if (own := cost(run, context)) is not None]  # fmt: skip
    is_known = seconds < HOPELESS * alone
    times_as_long = [expected_seconds(part, rate, interval) / whole(part)
                     for run in measurement.by_arm[name] if (part := _course(run))]  # fmt: skip
    ratios = [terms.factor * times for times in times_as_long]
    return SpotArm(
        machines=machines,
        course=course,
        checkpoint_epochs=interval,
        seconds=seconds if is_known else None,
        on_demand_seconds=alone,
        cost_ratio=estimate(ratios, (CHEAPER, DEARER), rule_of(measurement))
        if is_known and max(times_as_long) < HOPELESS
        else None,
        cost=terms.factor * seconds / alone * statistics.median(costs) if costs and is_known else None,
        stops_paying_at=stops_paying_at(course, terms.factor) / machines,
    )


def machines_of(arm: str, context: Context) -> int:
    """Return how many machines a run needs: one for each process, and on a cluster one for Ray's head. Any of them may
    be lost."""
    has_head = ARMS[arm].start == "ray" and context.ray_overhead.cpus > 0
    return ARMS[arm].processes(context.recipe) + has_head


def course_of(runs: Sequence[Run]) -> SpotCourse | None:
    """Return the median times of the parts of an arm's runs; None if no step was seen."""
    parts = [part for run in runs if (part := _course(run))]
    if not parts or len(parts) < len(runs):
        return None
    checkpoints = [part.checkpoint_seconds for part in parts if part.checkpoint_seconds is not None]
    return SpotCourse(
        start_seconds=statistics.median(part.start_seconds for part in parts),
        epochs=min(part.epochs for part in parts),
        epoch_seconds=statistics.median(part.epoch_seconds for part in parts),
        checkpoint_seconds=statistics.median(checkpoints) if len(checkpoints) == len(parts) else None,
        end_seconds=statistics.median(part.end_seconds for part in parts),
    )


def _course(run: Run) -> SpotCourse | None:
    """Return the parts of a run. If no epoch was timed, all that follows the start counts as one epoch.

    What the first steps take beyond the mean step belongs to the start, because a restarted run takes that time again.
    """
    result, clock = run.result, clock_of(run.result)
    start, whole_run, step = result.seconds.startup, clock.whole, step_seconds(result)
    if start is None:
        return None
    if clock.per_epoch is None or step is None:
        return SpotCourse(start, 1, max(0.0, whole_run - start), None, 0.0)
    warm_steps = clock.epochs * result.steps.per_epoch - result.steps.timed
    start += max(0.0, (result.seconds.warmup or 0.0) - warm_steps * step)
    of_checkpoints = result.seconds.checkpoint or 0.0
    interval = int(result.recipe.get("checkpointEpochs") or 0)
    checkpoints = clock.epochs // interval if interval else 0
    epoch = clock.per_epoch - of_checkpoints / (result.steps.gaps or clock.epochs)
    end = max(0.0, whole_run - of_checkpoints - start - clock.epochs * epoch)
    return SpotCourse(start, clock.epochs, epoch, of_checkpoints / checkpoints if checkpoints else None, end)


def whole(course: SpotCourse) -> float:
    """Return seconds from start to result without an interruption and without a checkpoint."""
    return course.start_seconds + course.epochs * course.epoch_seconds + course.end_seconds


def expected_seconds(course: SpotCourse, interruptions_per_hour: float, interval: int) -> float:
    """Return the expected seconds from start to result of a run that loses what follows its newest checkpoint.

    `interruptions_per_hour` of the whole run, λ; `interval`: epochs between checkpoints, 0: none. With restart R, which
    may be interrupted, too, a segment of w seconds and its checkpoint take E(w) on average:
      1. To get through L seconds without a break takes X(L) = (e^(λL) - 1) / λ: one try of a mean of (1 - e^(-λL)) / λ
         seconds succeeds with probability e^(-λL).
      2. The first try begins after a checkpoint, each later one with a restart: E = (1 - e^(-λw)) (1 / λ + X(R + w)).
      3. So E = e^(λR) (e^(λw) - 1) / λ. The first segment follows the start, which adds X(R).
    With segments of one length that is the complete model of Daly, "A higher order estimate of the optimum checkpoint
    interval for restart dumps", Future Generation Computer Systems 22 (2006). Its first order: Young, "A first order
    approximation to the optimum checkpoint interval", Communications of the ACM 17 (1974).
    """
    rate, again = interruptions_per_hour / HOUR, course.start_seconds
    return _through(again, rate) + math.exp(min(rate * again, LARGEST)) * sum(
        count * _through(seconds, rate) for count, seconds in _segments(course, interval)
    )


def _segments(course: SpotCourse, interval: int) -> Iterator[tuple[int, float]]:
    """Yield the segments of the run between checkpoints, as pairs: how many segments there are, and the seconds of
    each. A checkpoint follows every epoch whose number `interval` divides, also the last epoch, as this project's
    trainings do it."""
    count, rest = divmod(course.epochs, interval) if interval else (0, course.epochs)
    if count:
        yield count, interval * course.epoch_seconds + (course.checkpoint_seconds or 0.0)
    yield 1, rest * course.epoch_seconds + course.end_seconds


def _through(seconds: float, rate: float) -> float:
    """Return the expected seconds until `seconds` have passed without an interruption. `rate`: interruptions per
    second."""
    exponent = rate * seconds
    return seconds if exponent < SMALLEST else math.expm1(min(exponent, LARGEST)) / rate


def best_interval(course: SpotCourse, interruptions_per_hour: float) -> int:
    """Return the number of epochs between checkpoints with the least expected time; 0 if no checkpoint is best, or if
    the time of a checkpoint is not known."""
    if course.checkpoint_seconds is None:
        return 0
    tried: set[int] = {*range(min(course.epochs, FINE) + 1), *_even_intervals(course)}
    return min(sorted(tried), key=lambda interval: expected_seconds(course, interruptions_per_hour, interval))


def _even_intervals(course: SpotCourse) -> Iterator[int]:
    """Yield the intervals with up to FINE checkpoints that make all segments about equally long. Because a segment's
    expected time is convex in its length, the best interval with that number of checkpoints is among them."""
    checkpoint, epoch = course.checkpoint_seconds or 0.0, course.epoch_seconds or 1.0
    for count in range(1, FINE + 1):
        even = math.floor((course.epochs * epoch + course.end_seconds - checkpoint) / epoch / (count + 1))
        least, most = course.epochs // (count + 1) + 1, course.epochs // count
        yield from (min(max(interval, least), most) for interval in (even, even + 1))


def best_seconds(course: SpotCourse, interruptions_per_hour: float) -> float:
    """Return the expected seconds of a run with the best number of epochs between checkpoints."""
    return expected_seconds(course, interruptions_per_hour, best_interval(course, interruptions_per_hour))


def stops_paying_at(course: SpotCourse, factor: float) -> float:
    """Return the interruptions per hour of the whole run from which on spot capacity costs more than a run on
    demand."""
    if factor >= 1:
        return 0.0
    most = whole(course) / factor
    low, high = 0.0, 1.0
    while best_seconds(course, high) <= most:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if best_seconds(course, middle) <= most else (low, middle)
    return low
