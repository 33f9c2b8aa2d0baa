"""`repeats auto` is right with 95 % whenever it ends, by simulation through the project's own functions."""

import math
import statistics
from typing import get_args

import pytest

from compare.intervals import AUTO_CONFIDENCE, CONFIDENCE
from compare.schema import Answer
from infra.plan import in_turn
from tests.simulations import sequential
from tests.simulations.sequential import (
    INDEPENDENT,
    Truth,
    answers,
    lasting,
    looks_that_err,
    neighbours_seen,
    normal,
    wrong_after_a_number,
)

PATHS = 150
paths_of_answers = pytest.mark.parametrize("paths", [40, pytest.param(PATHS, marks=pytest.mark.slow)])
"""A whole measurement each: the break-even of clocks takes time."""


def at_most(share: float, paths: int = PATHS) -> float:
    """The share that so few paths may show by chance: the bound, and its 95 % binomial interval."""
    return share + 1.96 * math.sqrt(share * (1 - share) / paths)


def at_least(share: float) -> float:
    """Likewise from below."""
    return 1 - at_most(1 - share)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_all_nine_looks_hold_the_truth(name: str) -> None:
    """Whatever the noise: at most 6 % of equal arms seem different at any of the looks."""
    assert looks_that_err(INDEPENDENT[name], name, PATHS, AUTO_CONFIDENCE) <= at_most(0.06)


def test_a_95_percent_interval_does_not_if_it_is_looked_at_as_often() -> None:
    """So the test above can fail: with the level of a fixed number of repeats it does."""
    share = looks_that_err(normal, "normal", PATHS, CONFIDENCE)

    assert at_least(0.12) <= share <= at_most(0.18)
    assert share > at_most(0.06)


@pytest.mark.parametrize(
    ("truth", "most"),
    [
        (Truth(1.05, 1.05), 0.055),
        (Truth(1.5, 1.0), 0.035),
        (Truth(0.9, 0.9, 1.15), 0.035),
    ],
)
@paths_of_answers
def test_answers_err_as_rarely_wherever_a_budget_ends_them(paths: int, truth: Truth, most: float) -> None:
    """False are *Not worth it here* of a gain that matters, *Worth it* of none, and *from E on* with too small an E."""
    found = answers(truth, normal, str(truth), paths)

    assert found.false / paths <= at_most(most, paths)
    assert found.most_false <= at_most(most, paths)


@paths_of_answers
def test_a_number_that_is_looked_at_first_adds_its_own_errors(paths: int) -> None:
    """As docs/adr/0027 says: there are more than with `auto` from the beginning, and fewer than 8 %."""
    truth = Truth(1.05, 1.05)
    alone, after = answers(truth, normal, "first", paths).false, wrong_after_a_number(truth, "first", paths)

    assert alone / paths < after <= at_most(0.08, paths)


def test_a_tenth_is_found_in_few_repeats() -> None:
    """In 98 % of measurements, after at most 7 repeats in the median."""
    found = answers(Truth(1.1, 1.1), normal, "a tenth", PATHS)

    assert found.share("Worth it") >= at_least(0.98)
    assert statistics.median(found.repeats) <= 7


def test_every_first_word_comes_up() -> None:
    """The simulation goes where answers are made; what is not comparable is none of clocks."""
    truths = (Truth(1.5, 1.5), Truth(0.9, 0.9, 1.3), Truth(0.8, 0.8), Truth(1.03, 1.03))
    seen = {word for truth in truths for word in answers(truth, normal, "words", 8).words}

    assert set(get_args(Answer)) - {"Not comparable"} == seen


def test_luck_that_lasts_is_said() -> None:
    """In 45 % of measurements with 8 repeats, and in 70 % with 12."""
    assert neighbours_seen(lasting, "lasting", PATHS, 8) >= at_least(0.45)
    assert neighbours_seen(lasting, "lasting", PATHS, 12) >= at_least(0.70)


@pytest.mark.parametrize("repeats", [8, 12])
@pytest.mark.parametrize("name", ["normal", "slow outliers", "drift"])
def test_no_such_luck_is_rarely_said_to_last(name: str, repeats: int) -> None:
    """In at most 7 %: neither a drift of the machine nor slow runs look like it."""
    assert neighbours_seen(INDEPENDENT[name], name, PATHS, repeats) <= at_most(0.07)


def test_the_command_prints_its_tables() -> None:
    """A row a noise or truth, each with as many cells as its title."""
    for lines in (
        sequential.looks_table(3), sequential.answers_table(3, 0.05), sequential.after_a_number_table(3),
        sequential.neighbours_table(3),
    ):  # fmt: skip
        assert len({line.count("|") for line in lines}) == 1


def test_arms_take_turns_as_in_a_measurement() -> None:
    """A drift is simulated through the project's own order."""
    orders = [tuple(in_turn(sequential.ARMS, repeat)) for repeat in (1, 2, 3, 4)]

    assert list(sequential.ORDERS) == orders
