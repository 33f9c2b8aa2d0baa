"""Why a step takes as long as it does: what removing one cause at a time gained in a run of `rwi why`. Pure.

Each round tries every condition once. Its ratio is taken to the block of the same round in which nothing was changed,
so that what changes slowly on the machine is in both. The interval is Student's t over the rounds, and Bonferroni's
over all that may be said of all arms: with 95 % confidence all of it is true, of these runs. A round is no run, so
what differs between two runs is in no interval: a slow rank is that of a run, and arms are compared by what a
condition changed within each. `python -m tests.simulations.causes` shows how often it errs.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compare.intervals import CONFIDENCE, Interval, corrected, difference_interval, mean_interval, ratio_interval
from compare.step_parts import LEAST_TOLD, slowest_rank
from compare.value import Missing
from training.contract.result import StepParts

AS_IS, INPUT_READY, NO_EXCHANGE, THREADS = "as is", "input ready", "no exchange", "threads "
"""Conditions under which steps are timed. `threads ` is followed by a number of threads."""
LOOKS = (6, *(size for power in range(3, 13) for size in (2**power, 3 * 2 ** (power - 1))))
"""Numbers of rounds after which the program looks whether the rounds are enough: 6, 8, 12, 16, 24 to 6144. The numbers
are fixed before, and only the widths of the intervals decide. If a step takes less than a millisecond, one second is
enough for ten rounds and more."""
LEAST_ROUNDS = 4
"""With fewer rounds nothing is said of an arm."""
HALF_WIDTH = 0.05
"""The rounds are enough when the relative half-width of every interval is below this number."""
LEAST_GAIN = 0.02
"""A gain below this share of a step is not reported, however certain the gain is."""
CLOCKED = ("between", "save", "report", "collective")
"""Parts of a step that are causes by the clock alone: removing one gains at most its time."""
MOST_CONDITIONS = 4
"""The most conditions that are tried on an arm beside `as is`: input ready, no exchange, and two numbers of threads."""
CLAIMS = MOST_CONDITIONS + 1 + len(CLOCKED) + 1
"""The most intervals by which something is said of an arm: those of its conditions, of its parts, and of its slowest
rank. One is added because the rounds end when the intervals are narrow: an interval of one condition then errs about
twice as often, and intervals of several conditions err less often than that."""
DISTRIBUTED = (INPUT_READY, NO_EXCHANGE)
"""Conditions under which two arms are compared."""
SLOWS_COMPUTING = 2.0
"""If removing a cause gained at least this many times the seconds that the clock saw of the cause, the cause also
slowed down other parts of the step."""

Decision = Literal["faster", "slower", "nothing above noise", "not decided"]
"""How the time of a step changes under a condition."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round of the experiment, in which each condition is tried once."""

    seconds: Mapping[str, float]
    """Seconds of a step of the slowest rank, by condition, without steps before which rare work was done."""
    whole_step: float
    """Seconds of a step where nothing is changed, with the steps that `seconds` leaves out."""
    parts: StepParts | None
    """Parts of a step in the block of steps where nothing was changed; None if the parts are not known."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What was measured of one arm: its rounds, in each of which every condition ran once."""

    rounds: Sequence[Round]
    conditions: Sequence[str]
    absent: Mapping[str, str]
    """Why a condition could not be tried, by condition."""
    rows: float | None
    """Rows that a step processes, over all ranks; None if they are not known."""
    threads: int
    """Compute threads of a rank."""
    loader_workers: int | None
    """Worker processes that the DataLoader of each rank has; None if they are not known."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The time of a step under a condition, in seconds, and what that decides."""

    seconds: float
    """Seconds of a step under the condition."""
    lower: float
    """Lower end of the interval of `seconds`."""
    upper: float
    """Upper end of that interval. All intervals of the run hold together with 95 %."""
    decision: Decision
    """What the interval says of a step under the condition, compared with one where nothing was changed."""
    most_gain: float
    """The largest share of a step that the condition can save, by the interval."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What makes a step longer, and how many seconds removing it saved; of a part of `CLOCKED`, saves at most."""

    name: str
    """The condition that removes the cause, or the part of the step that is the cause."""
    seconds: float
    """Seconds of a step that removing the cause saved; of a part of `CLOCKED`, the most that it saves."""
    lower: float
    """Lower end of the interval of `seconds`."""
    upper: float
    """Upper end of the interval of `seconds`."""
    slows_computing: bool = False
    """Whether removing the cause saved at least twice the time that the clock saw of the cause."""


@dataclass(frozen=True, kw_only=True)
class ArmWhy:
    """Where the time of an arm's step goes, and what would shorten the step."""

    rounds: int
    """Number of rounds that count, in each of which every condition ran once."""
    step_seconds: float
    """Seconds of a step where nothing was changed."""
    parts: dict[str, float]
    """Seconds of a step by its part on rank 0, with `waiting` for slower ranks; empty where they are not known."""
    slowest_rank: int | None
    """The slowest rank of this run; None if no rank is certainly slower. One run cannot show whether other runs have
    the same slowest rank."""
    slower_seconds: float | None
    """By how many seconds of a step the slowest rank worked longer than the other ranks."""
    effects: dict[str, Effect]
    """The effect of each condition that was tried, by condition."""
    absent: dict[str, str]
    """Why a condition was not tried, by condition."""
    causes: list[Cause]
    """The causes that are certain, the largest first."""
    rows: float | None
    """Rows that a step processes, over all ranks; None if they are not known."""
    threads: int
    """Compute threads of a rank."""
    loader_workers: int | None
    """Worker processes that the DataLoader of each rank has; None if they are not known."""

    @property
    def has_slow_rank(self) -> bool:
        """Return whether one rank worked so much longer than the others that the report says so."""
        return (self.slower_seconds or 0.0) >= LEAST_TOLD * self.step_seconds


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """How many times as many rows a second one arm trains as another, as they are and with a condition in both."""

    above: str
    """The arm whose rows a second are divided by those of `below`."""
    below: str
    """The other arm."""
    condition: str
    """The condition that removes a cause in both arms."""
    as_is: float
    """The ratio where nothing was changed."""
    changed: float
    """The ratio under the condition."""
    lower: float
    """Lower end of the interval of `changed`."""
    upper: float
    """Upper end of the interval of `changed`. The interval does not include how the arms would differ in other runs."""


@dataclass(frozen=True, kw_only=True)
class Why:
    """What a run of `rwi why` found, as the file why.json holds it."""

    schema_version: int
    """Version of these keys."""
    made_at: str
    """Time at which the run was made, in UTC, as ISO 8601."""
    command: str
    """The command that repeats the run, without the values of --env."""
    script: str
    """Path of the script."""
    script_sha256: str
    """SHA-256 of the script's file."""
    arguments: list[str]
    """Arguments of the script, with `…` instead of what looks like a secret."""
    workers: int
    """Number of workers of the distributed arms."""
    cpu_model: str
    """Model of this machine's CPU."""
    busy: str
    """What other programs took of the machine meanwhile, in words; "" if it was too little to report."""
    arms: dict[str, ArmWhy]
    """What was found of each arm, by arm."""
    unknown: dict[str, str]
    """Why nothing can be said of an arm, by arm."""
    distribution: list[Distribution]
    """What distributing the work gains, as it is and without a cause."""


def confidence(arms: int) -> float:
    """Return the confidence of each interval if this number of arms is tried, so that all statements about the arms
    together hold with 95 %."""
    return corrected(CONFIDENCE, arms * CLAIMS + len(DISTRIBUTED))


def is_enough(tried: Tried, arms: int) -> bool:
    """Return whether the rounds of an arm may end. They may after one of the numbers of rounds in `LOOKS`, if every
    interval is narrow. `arms`: number of arms that are tried."""
    if len(tried.rounds) not in LOOKS:
        return False
    return all(_half_width(interval) < HALF_WIDTH for interval in _intervals(tried, arms).values())


def widest(tried: Tried, arms: int) -> float | None:
    """Return the largest relative half-width of all intervals so far; None with fewer than two rounds."""
    return max(map(_half_width, _intervals(tried, arms).values()), default=None) if len(tried.rounds) > 1 else None


def judge(tried: Tried, arms: int) -> ArmWhy | Missing:
    """Return what the rounds of an arm show, or why there are too few rounds. `arms`: number of arms that are tried."""
    rounds = tried.rounds
    if len(rounds) < LEAST_ROUNDS:
        return Missing(f"{len(rounds)} rounds, and {LEAST_ROUNDS} are needed")
    step, usual = statistics.fmean([each.whole_step for each in rounds]), _as_is(tried)
    parts = [each.parts for each in rounds if each.parts]
    known = len(parts) >= LEAST_ROUNDS
    slowest, slower = slowest_rank(parts, confidence(arms)) if known else (None, None)
    effects = {name: _effect(interval, step, usual) for name, interval in _intervals(tried, arms).items()}
    means = _mean_parts(parts) if known else {}
    causes = [_by_experiment(name, effect, step, _seen(name, means, slowest)) for name, effect in effects.items()]
    waits = slower if slowest and slower else 0.0  # rank 0 waits for another
    causes += [_by_clock(name, parts, step, waits, arms) for name in CLOCKED if known and name in means]
    certain = sorted(filter(None, _best_threads(causes)), key=lambda cause: -cause.seconds)
    return ArmWhy(
        rounds=len(rounds),
        step_seconds=step,
        parts=means,
        slowest_rank=slowest,
        slower_seconds=slower,
        effects=effects,
        absent=dict(tried.absent),
        causes=certain,
        rows=tried.rows,
        threads=tried.threads,
        loader_workers=tried.loader_workers,
    )


def distributions(tried: Mapping[str, Tried], known: Mapping[str, ArmWhy], arms: int) -> list[Distribution]:
    """Return what `native` gains over `baseline` without a cause of some arm; empty unless both are known."""
    if not {"native", "baseline"} <= known.keys():
        return []
    causes = {cause.name for arm in known.values() for cause in arm.causes}
    both, names = (tried["native"], tried["baseline"]), ("native", "baseline")
    gains = [distribution(*both, name, names, arms) for name in DISTRIBUTED if name in causes]
    return [each for each in gains if each]


def distribution(above: Tried, below: Tried, condition: str, names: tuple[str, str], arms: int) -> Distribution | None:
    """Return what distribution gains with a cause removed in both arms; None if that is not known.

    An arm that exchanges no gradients is used as it is for the condition *no exchange*. Each arm ran once, so the ratio
    of the arms as they are has no interval. The change of this ratio has an interval, from what the condition changed
    within each run.
    """
    as_below = AS_IS if condition == NO_EXCHANGE and condition in below.absent else condition
    if not (above.rows and below.rows and condition in above.conditions and as_below in below.conditions):
        return None
    if min(len(above.rounds), len(below.rounds)) < LEAST_ROUNDS:
        return None
    interval = difference_interval(_logs(above, condition), _logs(below, as_below), confidence(arms))
    if interval is None:
        return None
    as_is = above.rows / below.rows * _as_is(below) / _as_is(above)
    changed = interval.mapped(lambda log: as_is * math.exp(log))
    return Distribution(
        above=names[0],
        below=names[1],
        condition=condition,
        as_is=as_is,
        changed=changed.centre,
        lower=changed.lower,
        upper=changed.upper,
    )


def _logs(tried: Tried, condition: str) -> list[float]:
    """Return, for each round, the logarithm of the time of a step under the condition ÷ the time of a step as it is."""
    return [math.log(each.seconds[condition] / each.seconds[AS_IS]) for each in tried.rounds]


def _as_is(tried: Tried) -> float:
    return statistics.geometric_mean([each.seconds[AS_IS] for each in tried.rounds])


def _intervals(tried: Tried, arms: int) -> dict[str, Interval]:
    """Return, by condition, the interval of its step time ÷ that of the unchanged steps of the same round."""
    intervals = {
        name: ratio_interval([each.seconds[name] / each.seconds[AS_IS] for each in tried.rounds], confidence(arms))
        for name in tried.conditions
        if name != AS_IS
    }
    return {name: interval for name, interval in intervals.items() if interval}


def _half_width(interval: Interval) -> float:
    return math.sqrt(interval.upper / interval.lower) - 1


def _effect(interval: Interval, step: float, usual: float) -> Effect:
    """Return the effect of a condition on the mean step, in seconds. `interval` is the interval of the ratio of a step
    under the condition to the `usual` step."""
    half, seconds = _half_width(interval), interval.mapped(lambda ratio: step - usual * (1 - ratio))
    return Effect(
        seconds=seconds.centre,
        lower=seconds.lower,
        upper=seconds.upper,
        decision=_decision(seconds, step, half),
        most_gain=max(0.0, 1 - seconds.lower / step),
    )


def _decision(seconds: Interval, step: float, half: float) -> Decision:
    if seconds.upper < step and seconds.centre <= (1 - LEAST_GAIN) * step:
        return "faster"
    if seconds.lower > step and seconds.centre >= (1 + LEAST_GAIN) * step:
        return "slower"
    return "nothing above noise" if half < HALF_WIDTH else "not decided"


def _seen(name: str, parts: Mapping[str, float], slowest: int | None) -> float | None:
    """Return how many seconds of a step the clock sees of the cause that a condition removes. Returns None if that is
    not known, as when another rank than rank 0 is the slowest: `parts` are those of rank 0."""
    clocked = {INPUT_READY: ("input",), NO_EXCHANGE: ("exchange", "waiting")}.get(name, ())
    seconds = [parts[part] for part in clocked if part in parts]
    return sum(seconds) if seconds and not slowest else None


def _by_experiment(name: str, effect: Effect, step: float, seen: float | None) -> Cause | None:
    """Return the cause that a condition removed, or None if the condition did not make steps faster. `seen`: the
    seconds of a step that the clock sees of the cause; None if they are not known."""
    if effect.decision != "faster":
        return None
    gain = step - effect.seconds
    beyond = seen is not None and gain >= SLOWS_COMPUTING * seen and gain - seen >= LEAST_TOLD * step
    return Cause(
        name=name,
        seconds=gain,
        lower=step - effect.upper,
        upper=step - effect.lower,
        slows_computing=beyond,
    )


def _by_clock(name: str, parts: Sequence[StepParts], step: float, waits: float, arms: int) -> Cause | None:
    """Return a part of the step as a cause; None if the part is too short or not certain. The time in which rank 0
    waits for a slower rank there belongs to that rank, and is subtracted."""
    waits = waits if name in ("report", "collective") else 0.0
    interval = mean_interval([max(0.0, each.seconds[name] - waits) for each in parts], confidence(arms))
    if interval is None or interval.centre < LEAST_TOLD * step or interval.lower <= 0:
        return None
    return Cause(name=name, seconds=interval.centre, lower=interval.lower, upper=min(interval.upper, step))


def _best_threads(causes: Sequence[Cause | None]) -> list[Cause | None]:
    """Return the causes, of the numbers of threads only the best: a script can have only one of them."""
    of_threads = [cause for cause in causes if cause and cause.name.startswith(THREADS)]
    best = max(of_threads, key=lambda cause: cause.seconds, default=None)
    return [cause for cause in causes if cause not in of_threads or cause is best]


def _mean_parts(parts: Sequence[StepParts]) -> dict[str, float]:
    """Return the mean seconds of each part of a step on rank 0. The time in which rank 0 waits for slower ranks is a
    part of its own, and not in `exchange`."""
    means = {
        name: statistics.fmean(each.seconds[name] for each in parts)
        for name in parts[0].seconds
        if all(name in each.seconds for each in parts)
    }
    links = [each.link for each in parts if each.link is not None]
    if "exchange" in means and len(links) == len(parts):
        means["waiting"] = statistics.fmean(each.waiting(0) or 0.0 for each in parts)
        means["exchange"] = statistics.fmean(links)
    return means
