"""compare.duration: the one way to write an estimate of a duration."""

import pytest

from compare.duration import duration


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
