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
"""Conditions of a block; the last is followed by a number."""
LOOKS = (6, *(size for power in range(3, 13) for size in (2**power, 3 * 2 ** (power - 1))))
"""Rounds after which it is looked whether they are enough, 6, 8, 12, 16, 24 to 6144: fixed before, and by widths alone.
Of steps below a millisecond ten rounds and more are made in a second."""
LEAST_ROUNDS = 4
"""Rounds below which nothing is judged."""
HALF_WIDTH = 0.05
"""Relative half-width of every interval at which the rounds are enough."""
LEAST_GAIN = 0.02
"""Share of a step below which a gain is not told, however certain it is."""
CLOCKED = ("between", "save", "report", "collective")
"""Parts of a step that are causes by the clock alone: without them their time is gained, at most."""
MOST_CONDITIONS = 4
"""Of an arm: input ready, no exchange, and two numbers of threads."""
CLAIMS = MOST_CONDITIONS + 1 + len(CLOCKED) + 1
"""Most intervals by which something is said of an arm: of its conditions and parts, and of its slowest rank. One more,
because it ends when the intervals are narrow: of one condition that errs about twice as often, and of several less."""
DISTRIBUTED = (INPUT_READY, NO_EXCHANGE)
"""Conditions under which two arms are compared."""
SLOWS_COMPUTING = 2.0
"""Times what the clock saw of a cause, from which on removing it must have gained elsewhere, too."""

Decision = Literal["faster", "slower", "nothing above noise", "not decided"]
"""Of a step under a condition."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Each condition once."""

    seconds: Mapping[str, float]
    """Of a step of the slowest rank, by condition; without steps before which more was done than before most."""
    whole_step: float
    """Seconds of a step as it is, with those."""
    parts: StepParts | None
    """Of the block in which nothing was changed; None where they are not known."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The rounds of one arm."""

    rounds: Sequence[Round]
    conditions: Sequence[str]
    absent: Mapping[str, str]
    """Conditions that could not be tried, and why."""
    rows: float | None
    """Of a step, over all ranks."""
    threads: int
    """Compute threads of a rank."""
    loader_workers: int | None
    """Processes of the DataLoader of a rank."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a step takes under a condition."""

    seconds: float
    lower: float
    upper: float
    """Ends of its interval, which holds in 95 % together with all else that is said."""
    decision: Decision
    most_gain: float
    """Share of a step that it gains at most, by that interval."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What makes a step longer, and the seconds of a step that removing it gains, at most."""

    name: str
    """A condition, or a part of the step."""
    seconds: float
    lower: float
    upper: float
    slows_computing: bool = False
    """Whether removing it gained more than twice what the clock saw of it."""


@dataclass(frozen=True, kw_only=True)
class ArmWhy:
    """Where an arm's step goes, and what would shorten it."""

    rounds: int
    step_seconds: float
    parts: dict[str, float]
    """Seconds of a step by its part on rank 0, with `waiting` for slower ranks; empty where they are not known."""
    slowest_rank: int | None
    """Of this run: whether it is that of others, too, one run does not show."""
    slower_seconds: float | None
    """By how much its own work took longer than that of the others."""
    effects: dict[str, Effect]
    absent: dict[str, str]
    causes: list[Cause]
    """Those that are certain, the largest first."""
    rows: float | None
    threads: int
    loader_workers: int | None

    @property
    def has_slow_rank(self) -> bool:
        """Return whether a rank worked so much longer than the others that it is told."""
        return (self.slower_seconds or 0.0) >= LEAST_TOLD * self.step_seconds


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """How many times as many rows a second one arm trains as another, as they are and under a condition in both."""

    above: str
    below: str
    """Arms."""
    condition: str
    as_is: float
    changed: float
    lower: float
    upper: float
    """Of the latter's interval, with the arms as they were in these runs."""


@dataclass(frozen=True, kw_only=True)
class Why:
    """What a run of `rwi why` found, as it is kept in why.json."""

    schema_version: int
    made_at: str
    """UTC, ISO 8601."""
    command: str
    """What makes it again, without the values of --env."""
    script: str
    script_sha256: str
    arguments: list[str]
    """With `…` instead of what looks like a secret."""
    workers: int
    cpu_model: str
    busy: str
    """What other programs took meanwhile, in words; "" if they took nothing to speak of."""
    arms: dict[str, ArmWhy]
    unknown: dict[str, str]
    """Arms of which nothing can be said, and why."""
    distribution: list[Distribution]


def confidence(arms: int) -> float:
    """Return the confidence of each interval where so many arms are tried: all that is said of them holds in 95 %."""
    return corrected(CONFIDENCE, arms * CLAIMS + len(DISTRIBUTED))


def is_enough(tried: Tried, arms: int) -> bool:
    """Return whether one of so many arms may be stopped: at a look, with every interval narrow."""
    if len(tried.rounds) not in LOOKS:
        return False
    return all(_half_width(interval) < HALF_WIDTH for interval in _intervals(tried, arms).values())


def widest(tried: Tried, arms: int) -> float | None:
    """Return the largest relative half-width of the intervals so far; None for too few rounds."""
    return max(map(_half_width, _intervals(tried, arms).values()), default=None) if len(tried.rounds) > 1 else None


def judge(tried: Tried, arms: int) -> ArmWhy | Missing:
    """Judge the rounds of one of so many arms; there have to be a few rounds."""
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
    """Compute what distribution would gain without a cause of one of both arms, taken away in both."""
    if not {"native", "baseline"} <= known.keys():
        return []
    causes = {cause.name for arm in known.values() for cause in arm.causes}
    both, names = (tried["native"], tried["baseline"]), ("native", "baseline")
    gains = [distribution(*both, name, names, arms) for name in DISTRIBUTED if name in causes]
    return [each for each in gains if each]


def distribution(above: Tried, below: Tried, condition: str, names: tuple[str, str], arms: int) -> Distribution | None:
    """Compute what distribution gains with a cause taken away in both arms; None where that is not known.

    An arm that exchanges no gradients has that taken away as it is. Each arm ran once, so how they compare as they are
    has no interval; how much that changes has one, by what the condition changed within each run.
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
    """Return the logarithm of what a condition makes of a step, by round."""
    return [math.log(each.seconds[condition] / each.seconds[AS_IS]) for each in tried.rounds]


def _as_is(tried: Tried) -> float:
    return statistics.geometric_mean([each.seconds[AS_IS] for each in tried.rounds])


def _intervals(tried: Tried, arms: int) -> dict[str, Interval]:
    """Return the interval of each condition's ratio to the block of its round in which nothing was changed."""
    intervals = {
        name: ratio_interval([each.seconds[name] / each.seconds[AS_IS] for each in tried.rounds], confidence(arms))
        for name in tried.conditions
        if name != AS_IS
    }
    return {name: interval for name, interval in intervals.items() if interval}


def _half_width(interval: Interval) -> float:
    return math.sqrt(interval.upper / interval.lower) - 1


def _effect(interval: Interval, step: float, usual: float) -> Effect:
    """Return the effect of a ratio to the `usual` step on the mean step, all in seconds."""
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
    """Return what the clock sees of a condition's cause; None where it is not known, as where another rank is the
    slowest: these are the parts of rank 0."""
    clocked = {INPUT_READY: ("input",), NO_EXCHANGE: ("exchange", "waiting")}.get(name, ())
    seconds = [parts[part] for part in clocked if part in parts]
    return sum(seconds) if seconds and not slowest else None


def _by_experiment(name: str, effect: Effect, step: float, seen: float | None) -> Cause | None:
    """`seen`: seconds of a step that the clock sees of it; None where they are not known."""
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
    """Return a part of the step as a cause; what rank 0 waits there for a slower rank is that rank's."""
    waits = waits if name in ("report", "collective") else 0.0
    interval = mean_interval([max(0.0, each.seconds[name] - waits) for each in parts], confidence(arms))
    if interval is None or interval.centre < LEAST_TOLD * step or interval.lower <= 0:
        return None
    return Cause(name=name, seconds=interval.centre, lower=interval.lower, upper=min(interval.upper, step))


def _best_threads(causes: Sequence[Cause | None]) -> list[Cause | None]:
    """Leave the number of threads that gains most: one can have one number of them."""
    of_threads = [cause for cause in causes if cause and cause.name.startswith(THREADS)]
    best = max(of_threads, key=lambda cause: cause.seconds, default=None)
    return [cause for cause in causes if cause not in of_threads or cause is best]


def _mean_parts(parts: Sequence[StepParts]) -> dict[str, float]:
    """Return the parts of rank 0; of its exchange, what it waits for slower ranks stands apart."""
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
