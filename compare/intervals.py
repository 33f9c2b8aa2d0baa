"""Values over the repeats, and their confidence: t intervals, what they decide, how many repeats would decide. Pure.

Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013: a process is fast or slow for as long as it
lives, so the repeats are the observations, and steps or epochs within a run are not. Ratios are taken within a repeat;
their logarithms are averaged, and Student's t gives the interval.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from compare.measurement import Measurement
from compare.schema import Estimate, Spread
from training.contract.repeats import FIRST_REPEATS, MOST_AUTO_REPEATS, MOST_REPEATS

CONFIDENCE = 0.95
MARGIN = 1.05
"""If the whole interval of a ratio lies between 1/1.05 and 1.05, the ratio shows no measurable difference."""

ENOUGH_TO_ESTIMATE = 3
"""With fewer repeats, the spread says too little to estimate how many repeats would decide."""
AUTO_CONFIDENCE = 0.9875
"""The confidence of each interval of `repeats auto`: then all nine t intervals after 4 to 12 repeats hold the truth in
95 % of the measurements.

So whatever is decided, at whichever repeat the measurement ends and for whatever reason, is right with 95 %. One level
for all looks: Pocock, Biometrika 64 (1977), 191. Intervals that hold together: Jennison and Turnbull, "Repeated
confidence intervals for group sequential clinical trials", Controlled Clinical Trials 5 (1984), 33. Their levels are of
a known variance, and too narrow for Student's t. This one is simulated: 400,000 paths of normal repeats give 0.9872;
with 0.9875 a look errs in 4.9 % of them. The t statistics of a path do not depend on the variance, so the level is one
for all machines. `python -m tests.simulations.sequential` shows how often it errs with other noise.
"""
_POWER = 0.9
_T_PRECISION = 1e-12


@dataclass(frozen=True)
class Rule:
    """How a measurement is decided: the confidence of each of its intervals, and the most repeats that it may have."""

    confidence: float
    most_repeats: int


ONCE = Rule(CONFIDENCE, MOST_REPEATS)
"""The rule for a number of repeats that was chosen before the measurement."""
WHENEVER = Rule(AUTO_CONFIDENCE, MOST_AUTO_REPEATS)
"""The rule for `repeats auto`: the intervals are looked at after each repeat, from repeat `FIRST_REPEATS` on."""


def rule_of(measurement: Measurement) -> Rule:
    """Return how a measurement is decided."""
    return rule(is_auto=measurement.context.is_auto, alternatives=len(measurement.alternatives))


def rule(*, is_auto: bool, alternatives: int) -> Rule:
    """Return the rule for a measurement in which Ray is compared with this number of alternatives.

    Ray loses if it loses to one alternative. So only one end of each interval can make the answer wrong, and two
    alternatives together err as often as the two ends of one interval. A search has three alternatives.
    """
    of_two = WHENEVER if is_auto else ONCE
    return replace(of_two, confidence=corrected(of_two.confidence, max(1.0, alternatives / 2)))


Decision = Literal["above", "below", "no measurable difference", "not decided"]
"""How a ratio compares with 1."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the true value, with the mean of the observed values as its centre."""

    lower: float
    centre: float
    upper: float

    def mapped(self, function: Callable[[float], float]) -> "Interval":
        """Return an interval whose ends and centre are `function` of these; `function` has to be increasing."""
        return Interval(function(self.lower), function(self.centre), function(self.upper))


def corrected(confidence: float, claims: float) -> float:
    """Return the confidence that each of several intervals needs, so that all together err no more often than
    `confidence`.

    This is Bonferroni's correction. It holds even if the intervals depend on each other, so it may be used for the
    largest of several values, and for a value that was selected after looking.
    """
    return 1 - (1 - confidence) / claims


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the t interval of the mean of normally distributed values; None for fewer than two values."""
    if len(values) < 2:
        return None
    centre, deviation = statistics.fmean(values), statistics.stdev(values)
    half = t_quantile((1 + confidence) / 2, len(values) - 1) * deviation / math.sqrt(len(values))
    return Interval(centre - half, centre, centre + half)


def ratio_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the t interval of positive ratios, computed from their logarithms; None for fewer than two ratios. The
    centre is the geometric mean of the ratios."""
    interval = mean_interval([math.log(ratio) for ratio in ratios], confidence)
    return interval.mapped(math.exp) if interval else None


def difference_interval(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> Interval | None:
    """Return Welch's interval of the difference of the means of two unpaired samples (Biometrika 34, 1947); None if a
    sample has fewer than two values."""
    if len(before) < 2 or len(after) < 2:
        return None
    errors = [statistics.variance(values) / len(values) for values in (before, after)]
    centre, error = statistics.fmean(after) - statistics.fmean(before), sum(errors)
    if error == 0:
        return Interval(centre, centre, centre)
    sizes = (len(before), len(after))
    freedom = error**2 / sum(part**2 / (size - 1) for part, size in zip(errors, sizes, strict=True))
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(error)
    return Interval(centre - half, centre, centre + half)


def decide(interval: Interval | None) -> Decision:
    """Return whether the ratio of this interval is above 1, below it, not measurably different, or not decided."""
    if interval is None:
        return "not decided"
    if interval.lower > 1:
        return "above"
    if interval.upper < 1:
        return "below"
    within = interval.lower >= 1 / MARGIN and interval.upper <= MARGIN
    return "no measurable difference" if within else "not decided"


def repeats_to_decide(ratios: Sequence[float], rule: Rule = ONCE) -> int | None:
    """Return how many repeats, in all, would probably decide, if the ratio and its spread are what `ratios` say.

    This is the smallest number of repeats with which an interval of that width around that ratio excludes 1, or lies
    within the margin, in nine of ten measurements. Returns None if that is more than the rule allows, and FIRST_REPEATS
    if there are too few ratios to know their spread.
    """
    if len(ratios) < ENOUGH_TO_ESTIMATE:
        return FIRST_REPEATS
    logs = [math.log(ratio) for ratio in ratios]
    effect, deviation = abs(statistics.fmean(logs)), statistics.stdev(logs)
    room = max(effect, math.log(MARGIN) - effect)
    for repeats in range(len(ratios) + 1, rule.most_repeats + 1):
        if _probably_excluded(deviation, repeats, rule) <= room:
            return repeats
    return None


def least_visible(ratios: Sequence[float], rule: Rule = ONCE) -> float | None:
    """Return the smallest change that as many ratios with this spread show in nine of ten measurements, as 0.12 for 12
    %; None with too few ratios to know the spread."""
    if len(ratios) < ENOUGH_TO_ESTIMATE:
        return None
    return math.expm1(_probably_excluded(statistics.stdev(map(math.log, ratios)), len(ratios), rule))


def _probably_excluded(deviation: float, repeats: int, rule: Rule) -> float:
    """Return how far, in logarithms, a mean has to be from a value for its interval to probably exclude that."""
    quantiles = t_quantile((1 + rule.confidence) / 2, repeats - 1) + t_quantile(_POWER, repeats - 1)
    return quantiles * deviation / math.sqrt(repeats)


def auto_would_decide(ratios: Sequence[float]) -> bool:
    """Return whether `repeats auto` would probably decide. It would keep these repeats, and its intervals are wider."""
    return repeats_to_decide(ratios, WHENEVER) is not None


def spread(values: Sequence[float]) -> Spread:
    """Return the median and range of the values over the repeats. There has to be at least one value."""
    return Spread(
        median=float(statistics.median(values)),
        low=float(min(values)),
        high=float(max(values)),
        n=len(values),
        values=[float(value) for value in values],
    )


def estimate(
    values: Sequence[float], words: tuple[str, str] | None = ("slower", "faster"), rule: Rule = ONCE
) -> Estimate:
    """Return the estimate of one or more positive ratios: the interval from their logarithms, and the decision. `words`
    are the words for a ratio below 1 and above 1; with None there is no decision."""
    interval = ratio_interval(values, rule.confidence)
    decision = decide(interval)
    is_open = decision == "not decided" and words is not None
    decision_word = {"below": words[0], "above": words[1]}.get(decision, decision) if words else ""
    return _estimate(values, interval, decision_word, repeats_to_decide(values, rule) if is_open else None)


def difference(values: Sequence[float], rule: Rule = ONCE) -> Estimate:
    """Return the estimate of differences. No 1 is there to compare them with, so nothing is decided."""
    return _estimate(values, mean_interval(values, rule.confidence), "", None)


def _estimate(values: Sequence[float], interval: Interval | None, decision: str, repeats: int | None) -> Estimate:
    return Estimate(
        **vars(spread(values)),
        lower=interval.lower if interval else None,
        upper=interval.upper if interval else None,
        decision=decision,
        repeats_to_decide=repeats,
    )


@cache
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution at a probability from 0.5 to below 1. `freedom`: degrees of
    freedom, any positive number."""
    low, high = 0.0, 1.0
    while _t_probability(high, freedom) < probability:
        high *= 2
    while high - low > _T_PRECISION * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_probability(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _t_probability(t: float, freedom: float) -> float:
    """Return P(T <= t) of Student's t for t >= 0: 1 - I_x(freedom / 2, 1 / 2) / 2, x = freedom / (freedom + t²)."""
    return 1 - _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - _incomplete_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / a / _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float, terms: int = 80) -> float:
    """Return 1 + d₁/(1 + d₂/(1 + …)), computed from the inside out. Up to 400 degrees of freedom, 80 terms are as exact
    as floats can be."""
    value = 1.0
    for n in range(terms, 0, -1):
        m = n // 2
        if n % 2:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1 + numerator / value
    return value
