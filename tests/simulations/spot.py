"""A run that is interrupted at random times, second by second: what `compare.spot` says in a formula. Pure."""

import random
import statistics
from collections.abc import Sequence

from compare.run_numbers import HOUR
from compare.schema import SpotCourse

MEANS = 2000


def interrupted(course: SpotCourse, per_hour: float, interval: int, rng: random.Random) -> float:
    """Return the seconds of one run, which loses what follows its newest checkpoint at each interruption."""
    rate, seconds, done = per_hour / HOUR, 0.0, 0
    while True:
        left = rng.expovariate(rate)  # until the next interruption; what was before means nothing
        began, left = left, left - course.start_seconds
        while left >= 0:
            to = min(done + interval, course.epochs) if interval else course.epochs
            left -= (to - done) * course.epoch_seconds
            if is_kept := bool(interval) and to % interval == 0 and to > done:
                left -= course.checkpoint_seconds or 0.0
            if not is_kept and left >= course.end_seconds:
                return seconds + began - left + course.end_seconds
            if not is_kept:
                break
            done = to if left >= 0 else done
        seconds += began


def interval_of_mean(
    courses: Sequence[SpotCourse], per_hour: float, interval: int, runs: int, rng: random.Random
) -> tuple[float, float]:
    """Return what the mean of so many runs lies in with 95 %, each of a course that was measured."""
    means = sorted(
        statistics.fmean(interrupted(rng.choice(courses), per_hour, interval, rng) for _ in range(runs))
        for _ in range(MEANS)
    )
    return means[MEANS // 40], means[-MEANS // 40]
