"""Luck that lasts: whether repeats resemble their neighbours, the one failure that no t interval sees. Pure.

A machine that is slow for an arm in one repeat, and still is in the next, gives repeats that are not independent, and
intervals that are too narrow. What slows all arms of a repeat alike does no harm: ratios are taken within a repeat.
"""

import math
import random
from collections.abc import Sequence
from itertools import pairwise

from compare.measurement import Measurement
from compare.run_numbers import whole

FIRST = 8
"""With fewer repeats than this the test is not made: four repeats show next to nothing."""
PERMUTATIONS = 199
LEVEL = 0.05
"""The remark is made below this probability: at most eight of the permutations may show as much, and with the repeats
themselves that is nine of 200."""


def remark(measurement: Measurement) -> str:
    """Return a remark if repeats resemble their neighbours; "" if they do not, or if too little is known."""
    if len(measurement.repeats) < FIRST or len(measurement.arms) < 2:
        return ""
    clocks = [[whole(repeat[arm], measurement) or 0.0 for arm in measurement.arms] for repeat in measurement.repeats]
    if not all(clock > 0 for repeat in clocks for clock in repeat):
        return ""
    if chance([[math.log(clock) for clock in repeat] for repeat in clocks]) >= LEVEL:
        return ""
    return "Repeats resemble their neighbours: an arm's luck lasted longer than a repeat, so intervals are too narrow"


def chance(log_clocks: Sequence[Sequence[float]]) -> float:
    """Return how probable it is that repeats resemble their neighbours so much if the order of the repeats means
    nothing.

    The measure is the lag-1 correlation of the residuals over all arms (log clocks less what an arm and a repeat have
    in common), compared with that of seeded permutations of whole repeats. `log_clocks`: for each repeat the logarithm
    of each arm's time, with the arms in one order.
    """
    repeats, arms = len(log_clocks), len(log_clocks[0])
    of_repeats = [sum(clocks) / arms for clocks in log_clocks]
    of_arms = [sum(clocks[arm] for clocks in log_clocks) / repeats for arm in range(arms)]
    overall = sum(of_repeats) / repeats
    residuals = [
        [clock - of_repeat - of_arm + overall for clock, of_arm in zip(clocks, of_arms, strict=True)]
        for clocks, of_repeat in zip(log_clocks, of_repeats, strict=True)
    ]
    products = [[sum(map(float.__mul__, row, other)) for other in residuals] for row in residuals]
    tolerance = 1e-12 * sum(products[repeat][repeat] for repeat in range(repeats))
    order, seen = list(range(repeats)), _resemblance(products, range(repeats))
    rng, as_much = random.Random(repeats), 1  # noqa: S311 - no secret
    for _ in range(PERMUTATIONS):
        rng.shuffle(order)
        as_much += _resemblance(products, order) >= seen - tolerance
    return as_much / (PERMUTATIONS + 1)


def _resemblance(products: Sequence[Sequence[float]], order: Sequence[int]) -> float:
    """Return the sum of the products of neighbours: the divisor of a correlation is the same in every order."""
    return sum(products[before][after] for before, after in pairwise(order))
