"""When a measurement with `repeats auto` ends, and whether longer training may change a no. Pure.

At each number of epochs (of trials, in a search) every alternative's ratio of whole clocks has its interval, by the
runs that there are. Where one lies below 1.05 these runs answer *Not worth it here* for that number, too. The first
number at which none does is the least that might change the answer, but most likely it does not change it. So the
advice to train longer names the first number at which the centre of each interval is at least 1.05.
"""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from compare.answer import DECIDES, MOST_EPOCHS, Contest
from compare.intervals import WHENEVER
from compare.measurement import Measurement, Run
from compare.run_numbers import clock_of
from compare.schema import Answer, Claim, Comparison, Ending, LongerRun
from compare.value import Missing

BUDGET = "budgetMinutes"
"""The setting that limits how long an update may take, in minutes."""
MOST_SECONDS = 86_400
"""A measurement that takes more seconds than this is not advised, unless `budgetMinutes` is set."""
ANOTHER_ANSWER = "the answer is not *Not worth it here*"
NO_NUMBER = "Ray probably gains less than 5 % at each number"
STEP = 1.02
"""Factor between one number of epochs that is tried and the next."""


def ending(
    answer: Answer, contests: Sequence[Contest], claim: Claim | None, repeats: int, *, is_final: bool = False
) -> Ending:
    """Return why a measurement ends after this number of whole repeats, at least `FIRST_REPEATS`; "goes on" if it does
    not end.

    With the answer *Not worth it here* the measurement goes on until it is known whether longer training changes that,
    if the time of an epoch alone can be compared. `is_final`: it is known that longer training does not change the
    answer.
    """
    if claim not in DECIDES or not contests or any(isinstance(each.now, Missing) for each in contests):
        return "nothing to decide"
    if is_final or answer in ("Worth it", "Worth it from"):
        return "decided"
    if any(each.is_lost_for_good or (each.is_lost and isinstance(each.per_epoch, Missing)) for each in contests):
        return "decided"
    return "most repeats" if repeats >= WHENEVER.most_repeats else "goes on"


def budget_seconds(comparison: Comparison) -> float | None:
    """Return the seconds that `budgetMinutes` allows; None if it is not set."""
    return _budget_seconds(comparison.settings)


def _budget_seconds(settings: Mapping[str, str]) -> float | None:
    minutes = settings.get(BUDGET)
    return 60.0 * float(minutes) if minutes else None


def repeat_seconds(comparison: Comparison) -> float:
    """Return the seconds of the longest repeat so far, of its runs and the usual pause before each: an interruption of
    a repeat does not count. 0 without repeats."""
    runs = [run for arm in comparison.arms.values() for run in arm.runs]
    return _longest_repeat(
        [(run.repeat, datetime.fromisoformat(run.started_at).timestamp(), run.wall_seconds) for run in runs]
    )


def _longest_repeat(runs: Sequence[tuple[int, float, float]]) -> float:
    """Return the seconds of the longest repeat. `runs`: each run's repeat, start and seconds."""
    spans = sorted((started, wall) for _, started, wall in runs)
    pauses = [max(0.0, start - before - wall) for (before, wall), (start, _) in pairwise(spans)]
    pause = statistics.median(pauses) if pauses else 0.0
    seconds: dict[int, float] = {}
    for repeat, _, wall in runs:
        seconds[repeat] = seconds.get(repeat, 0.0) + pause + wall
    return max(seconds.values(), default=0.0)


def longest_repeat(measurement: Measurement) -> float:
    """Return the seconds of the longest repeat of a measurement, with the runs of its workers' curve."""
    runs = [*measurement.of_curve, *(run for of in measurement.by_arm.values() for run in of)]
    return _longest_repeat([(run.repeat, run.started, run.result.seconds.wall) for run in runs])


def most_seconds(settings: Mapping[str, str]) -> float:
    """Return how many seconds a measurement may take if it is to be advised."""
    return _budget_seconds(settings) or MOST_SECONDS


def lacks_time(comparison: Comparison) -> bool:
    """Return whether `budgetMinutes` is too short for one more repeat, so that each update ends before it."""
    budget = budget_seconds(comparison)
    return budget is not None and repeat_seconds(comparison) > budget


def next_up(measurement: Measurement) -> str:
    """Return what the next update does with a measurement that goes on."""
    budget = _budget_seconds(measurement.context.settings)
    if budget is not None and longest_repeat(measurement) > budget:
        return f"no `up` goes on, because a repeat takes longer than {BUDGET} {measurement.context.settings[BUDGET]}"
    return "the next `up` goes on"


def open_words(answer: str, repeats: int) -> str:
    """Return what a measurement that goes on has not found out yet."""
    if answer == "Not decided":
        return f"not decided in {repeats} repeats"
    return f"{answer} after {repeats} repeats, and whether longer training changes that is not known"


def longer_run(answer: Answer, measurement: Measurement, contests: Collection[Contest]) -> LongerRun | Missing:
    """Return from which number of passes the answer *Not worth it here* may and probably does change, or why it does
    not."""
    if answer != "Not worth it here":
        return Missing(ANOTHER_ANSWER)
    unknown = [each.per_epoch.reason for each in contests if isinstance(each.per_epoch, Missing)]
    if unknown:
        return Missing(unknown[0])
    trained, passed = measurement.epochs_trained[0], measurement.workload.passed
    passes = first_after(trained, lambda number: not any(each.is_lost_at(number) for each in contests))
    if passes is None:
        against = " against one of the alternatives" if len(contests) > 1 else ""
        return Missing(f"at each number of {passed}s up to {MOST_EPOCHS:,} Ray gains less than 5 %{against}")
    probably = first_after(trained, lambda number: not any(each.is_probably_lost_at(number) for each in contests))
    if probably is None:
        return LongerRun(passes=passes, seconds=None, not_advised=f"{NO_NUMBER} of {passed}s")
    runs = [*measurement.of_curve, *(run for of_arm in measurement.by_arm.values() for run in of_arm)]
    each = [_seconds(run, probably) for run in runs]
    known = [seconds for seconds in each if seconds is not None]
    seconds, longest = (sum(known), max(known)) if len(known) == len(each) else (None, None)
    why_not = _not_advised(measurement, probably, seconds, longest)
    return LongerRun(passes=passes, probably=probably, seconds=seconds, not_advised=why_not)


def first_after(number: int, is_open: Callable[[int], bool]) -> int | None:
    """Return the first number above `number` for which `is_open` is true; None if there is none up to `MOST_EPOCHS`.
    Numbers are tried in steps of 2 %."""
    closed, looked = number, number + 1
    while looked <= MOST_EPOCHS and not is_open(looked):
        closed, looked = looked, max(looked + 1, int(looked * STEP))
    if looked > MOST_EPOCHS:
        return None
    while looked - closed > 1:
        middle = (closed + looked) // 2
        closed, looked = (closed, middle) if is_open(middle) else (middle, looked)
    return looked


def _seconds(run: Run, passes: int) -> float | None:
    """Return a run's seconds with this number of passes (epochs or trials), by its own clock; None if unknown."""
    clock = clock_of(run.result)
    if clock.per_epoch is None:
        return None
    return run.result.seconds.wall + (passes - clock.epochs) * clock.per_epoch


def _not_advised(measurement: Measurement, passes: int, seconds: float | None, longest: float | None) -> str:
    """Return why the longer run is not advised; "" if it is. `seconds`: of all runs; `longest`: of the longest."""
    recipe, key = measurement.recipe.to_dict(), measurement.workload.passes_key
    is_by_key = measurement.workload.has_key_for_passes(recipe) and not recipe.get("measureSteps")
    if not is_by_key or list(measurement.epochs_trained) != [recipe.get(key)]:
        return f"the setting {key} does not decide how many there are"
    try:
        measurement.recipe.settings()[key].metadata["rule"].parse(str(passes))
    except ValueError:
        return f"the setting {key} does not allow so many"
    if passes > (most := measurement.workload.most_passes(measurement.recipe)):
        return f"the other settings allow {most:g}"
    return _too_long(measurement, seconds, longest)


def _too_long(measurement: Measurement, seconds: float | None, longest: float | None) -> str:
    """Return why the measurement, or one run of it, would take too long; "" if neither would."""
    minutes, of_run = measurement.context.settings.get(BUDGET), measurement.context.run_timeout_minutes
    if seconds is None or longest is None:
        return "how long that takes is not known"
    if longest > 60 * of_run:
        return f"a run would take longer than runTimeoutMinutes {of_run:g}"
    if seconds > most_seconds(measurement.context.settings):
        return f"here that takes longer than {f'{BUDGET} {minutes}' if minutes else 'a day'}"
    return ""
