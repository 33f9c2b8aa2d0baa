"""How sure a ratio is: t quantiles against tables, intervals, and by simulation how often a decision is wrong."""

import math
import random
from collections.abc import Callable

import pytest

from compare.intervals import (
    AUTO_CONFIDENCE,
    CONFIDENCE,
    Interval,
    decide,
    difference_interval,
    mean_interval,
    ratio_interval,
    repeats_to_decide,
    rule,
    t_quantile,
)
from tests.unit.compare.test_sequential import at_most
from training.contract.repeats import FIRST_REPEATS

MOST_FALSE = 0.06


def simulations(few: int, many: int = 3000) -> pytest.MarkDecorator:
    """So few, which show a rule that is broken; as many as the figures of docs/adr/0013 are from take their time."""
    return pytest.mark.parametrize("number", [few, pytest.param(many, marks=pytest.mark.slow)])


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 3, 3.18245),
        (0.975, 4, 2.77645),
        (0.975, 10, 2.22814),
        (0.975, 30, 2.04227),
        (0.975, 120, 1.97993),
        (0.995, 5, 4.03214),
        (0.9, 3, 1.63774),
        (0.95, 1, 6.31375),
        (0.5, 7, 0.0),
    ],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: float, expected: float) -> None:
    """Abramowitz and Stegun, table 26.10, to its last digit."""
    assert t_quantile(probability, freedom) == pytest.approx(expected, abs=6e-5)


def test_quantiles_of_broken_degrees_lie_between_their_neighbours() -> None:
    """Welch's degrees of freedom are no whole numbers."""
    assert t_quantile(0.975, 4) < t_quantile(0.975, 3.4) < t_quantile(0.975, 3)


def test_the_interval_is_students() -> None:
    """Worked by hand: mean 2, deviation 1, three values, t(0.975, 2) = 4.30265."""
    interval = mean_interval([1.0, 2.0, 3.0])

    assert interval is not None
    assert interval.upper - 2 == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)
    assert (interval.centre, interval.lower) == pytest.approx((2.0, 4 - interval.upper))
    assert mean_interval([1.0]) is None


def test_a_ratio_and_its_inverse_have_inverse_intervals() -> None:
    """Which arm stands above the line must not change what is decided: so logarithms are averaged."""
    ratios = [1.2, 1.5, 1.1, 1.3]
    interval, inverse = ratio_interval(ratios), ratio_interval([1 / ratio for ratio in ratios])

    assert interval is not None
    assert inverse is not None
    assert (1 / inverse.upper, 1 / inverse.lower) == pytest.approx((interval.lower, interval.upper))


def test_the_difference_of_two_means_is_welchs() -> None:
    """Against scipy.stats.ttest_ind(equal_var=False).confidence_interval() of these values."""
    interval = difference_interval([1.0, 2.0, 3.0], [4.0, 4.5, 5.5, 6.0])

    assert interval is not None
    assert interval.centre == pytest.approx(3.0)
    assert (interval.lower, interval.upper) == pytest.approx((0.992636, 5.007364), abs=1e-6)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (Interval(1.001, 1.2, 1.4), "above"),
        (Interval(0.6, 0.8, 0.999), "below"),
        (Interval(0.96, 1.0, 1.04), "no measurable difference"),
        (Interval(0.9, 1.0, 1.1), "not decided"),
        (Interval(0.96, 1.1, 1.2), "not decided"),
        (Interval(0.94, 1.0, 1.04), "not decided"),
        (None, "not decided"),
    ],
)
def test_the_interval_decides(interval: Interval | None, expected: str) -> None:
    """Above or below 1 as a whole; equal only if it is narrow enough to say so; nothing without one."""
    assert decide(interval) == expected


def seeded(name: str) -> random.Random:
    """Always the same numbers for a test."""
    return random.Random(name)  # noqa: S311 - no secret


def normal(rng: random.Random) -> float:
    """5 % from run to run."""
    return rng.gauss(0, 0.05)


def heavy(rng: random.Random) -> float:
    """4 % from run to run, and every tenth run disturbed by 8 % and often much more: 5 % in all."""
    return rng.gauss(0, 0.04) + (rng.expovariate(1 / 0.08) if rng.random() < 0.1 else 0.0)


def ratios(rng: random.Random, noise: Callable[[random.Random], float], true: float, repeats: int) -> list[float]:
    """What so many repeats of two arms measure."""
    return [true * math.exp(noise(rng) - noise(rng)) for _ in range(repeats)]


@pytest.mark.parametrize("noise", [normal, heavy])
@pytest.mark.parametrize("repeats", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("number", "most"), [(500, at_most(MOST_FALSE, 500)), pytest.param(3000, MOST_FALSE, marks=pytest.mark.slow)]
)
def test_equal_arms_are_told_apart_in_at_most_6_percent(
    number: int, most: float, repeats: int, noise: Callable[[random.Random], float]
) -> None:
    """The promise of the verdict, also where some runs are disturbed."""
    rng = seeded(f"{noise.__name__}{repeats}")
    decisions = [decide(ratio_interval(ratios(rng, noise, 1.0, repeats))) for _ in range(number)]

    assert sum(decision in ("above", "below") for decision in decisions) <= most * number


@pytest.mark.parametrize("repeats", [4, 8])
@simulations(800)
def test_losing_to_any_of_three_errs_no_more_often_than_to_any_of_two(number: int, repeats: int) -> None:
    """A search has three alternatives; with intervals that are as wide as those of two, 6 to 7 % of equal ones win."""
    shares = {}
    for confidence in (rule(is_auto=False, alternatives=3).confidence, CONFIDENCE):
        rng, lost = seeded(f"three{repeats}"), 0
        for _ in range(number):
            ray = [normal(rng) for _ in range(repeats)]
            others = [[math.exp(normal(rng) - own) for own in ray] for _ in range(3)]
            lost += any(decide(ratio_interval(each, confidence)) == "below" for each in others)
        shares[confidence] = lost / number

    corrected, as_of_two = shares.values()
    assert corrected <= 0.05
    assert as_of_two > 0.055


def test_fewer_than_three_alternatives_are_decided_as_ever() -> None:
    """One end of each of two intervals errs as often as one interval; a measurement of Ray alone has none."""
    for is_auto, confidence in ((False, CONFIDENCE), (True, AUTO_CONFIDENCE)):
        assert [confidence] * 3 == [rule(is_auto=is_auto, alternatives=number).confidence for number in (0, 1, 2)]


@pytest.mark.parametrize("noise", [normal, heavy])
@pytest.mark.parametrize("repeats", [3, 4])
def test_the_repeats_named_find_a_tenth(repeats: int, noise: Callable[[random.Random], float]) -> None:
    """Where a true 1.10× was not decided, measuring as often as was named finds it in at least 80 %."""
    rng = seeded(f"{noise.__name__}{repeats}")
    tried = found = 0
    while tried < 400:
        first = ratios(rng, noise, 1.1, repeats)
        named = repeats_to_decide(first)
        if decide(ratio_interval(first)) == "not decided" and named is not None:
            tried += 1
            found += decide(ratio_interval(ratios(rng, noise, 1.1, named))) == "above"

    assert found >= 0.8 * tried


@simulations(800)
def test_going_on_until_decided_errs_more_often(number: int) -> None:
    """As ADR 13 says: from 4 repeats on, one more each time and at most 8, equal arms are told apart in 10 to 12 %."""
    rng, false = seeded("until decided"), 0
    for _ in range(number):
        values = ratios(rng, heavy, 1.0, 4)
        while decide(ratio_interval(values)) == "not decided" and len(values) < 8:
            values += ratios(rng, heavy, 1.0, 1)
        false += decide(ratio_interval(values)) in ("above", "below")

    assert 0.09 <= false / number <= 0.125


def test_repeats_to_decide() -> None:
    """Few for a clear difference, more for a small one, none under 100 for hardly any; too few to tell: the default."""
    clear, small = [1.3, 1.5, 1.2], [1.0, 1.2, 1.1]

    assert (repeats_to_decide(clear) or 0) < (repeats_to_decide(small) or 0) <= 20
    assert repeats_to_decide([0.7, 1.4, 1.05]) is None
    assert repeats_to_decide([1.0, 1.2]) == FIRST_REPEATS
