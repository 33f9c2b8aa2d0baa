"""Numbers in words: the slower side is named, an interval turns round with it, a duration has the unit that fits."""

import pytest

from compare.schema import Estimate
from compare.words import compared, duration, inverse, sides
from tests.unit.results import estimated


@pytest.mark.parametrize(
    ("value", "is_longer", "numbers", "differed"),
    [
        (estimated(2.0, 1.6, 2.5), False, ("2.00", "1.60", "2.50"), False),
        (estimated(0.5, 0.4, 0.625), True, ("2.00", "1.60", "2.50"), False),
        (estimated(0.95, 0.8, 1.25), True, ("1.05", "0.80", "1.25"), False),
        (estimated(0.5), True, ("2.0", "", ""), False),
        (estimated(0.3, 0.0001, 42.28), True, ("3.33", "0.02", "10,000.00"), True),
        (estimated(0.5, 0.0, 1.0), True, ("2.00", "1.00", "inf"), True),
        (estimated(2.0, 1.84, 2.04), False, ("2.00", "1.84", "2.04"), False),
        (estimated(0.1, 0.09, 0.125), True, ("10.0", "8.0", "11.1"), False),
    ],
)
def test_the_slower_side_is_named(
    value: Estimate, is_longer: bool, numbers: tuple[str, str, str], differed: bool
) -> None:
    """Above 1 Ray is as many times as fast, below it takes as many times as long, with as many decimals in each number;
    far ends are said to be far."""
    text = compared(value)

    assert (text.is_longer, (text.times, text.low, text.high), text.differed) == (is_longer, numbers, differed)
    assert all(number in text.words() for number in numbers)


def test_several_are_joined_with_each_verb_once() -> None:
    """`takes … and …`, `is … and takes …`."""
    slow, fast = (estimated(0.5, 0.4, 0.6), "one"), (estimated(2.0, 1.9, 2.1), "another")

    assert [sides(pairs).split().count("takes") for pairs in ([slow, slow], [fast, slow], [fast])] == [1, 1, 0]
    assert [sides(pairs).split().count("is") for pairs in ([slow, slow], [fast, slow], [fast])] == [0, 1, 1]


def test_the_inverse_of_a_ratio_decides_nothing() -> None:
    """What was decided is said of the other side."""
    turned = inverse(estimated(2.0, 1.6, 2.5))

    assert (turned.median, turned.lower, turned.upper) == (0.5, 0.4, 0.625)
    assert (turned.decision, turned.repeats_to_decide) == ("", None)
    assert inverse(estimated(2.0)).lower is None


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((40,), "40 s"),
        ((89,), "89 s"),
        ((90,), "2 min"),
        ((5399,), "90 min"),
        ((7200,), "2.0 h"),
        ((100, 150), "100 to 150 s"),
        ((830, 1030), "14 to 17 min"),
        ((830, 840), "14 min"),
    ],
)
def test_a_duration_is_in_the_unit_that_fits(seconds: tuple[float, ...], expected: str) -> None:
    """A range by its end, in seconds as long as minutes would be too coarse."""
    assert duration(*seconds) == expected


def test_an_inverse_has_the_inverse_of_all_its_numbers() -> None:
    """The lowest becomes the highest."""
    found = inverse(estimated(2.0, 1.6, 2.5, low=1.25, high=4.0))

    assert (0.5, 0.25, 0.8) == (found.median, found.low, found.high)
    assert (0.4, 0.625) == (found.lower, found.upper)
