"""How many repeats a stack has with `repeats auto`: what its last comparison says, if it is of this measurement."""

from typing import Any

import pytest

from infra.repeats import AT_A_TIME, repeats_now

THIS = "a" * 64


def comparison(repeats: int, auto: str, measurement: str = THIS) -> dict[str, Any]:
    """As much of one as is read, of any version."""
    return {"measurement": measurement, "auto": auto, "arms": {"ray": {"runs": [{}] * repeats}}}


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (None, 4),
        (comparison(7, "decided"), 7),
        (comparison(4, "goes on"), 8),
        (comparison(11, "goes on"), 12),
        (comparison(12, "most repeats"), 12),
        (comparison(5, "nothing to decide"), 5),
        (comparison(2, ""), 4),
        (comparison(6, ""), 6),
        (comparison(20, ""), 12),
        (comparison(7, "decided", "of another recipe"), 4),
        (comparison(7, "goes on", "of another recipe"), 4),
        ({"arms": {"ray": {"runs": [{}] * 7}}}, 4),
    ],
)
def test_the_last_comparison_says_how_many_there_are(last: dict[str, Any] | None, expected: int) -> None:
    """Kept if decided, or of a fixed number; four more if not; four of what was never measured."""
    assert expected == repeats_now(last, THIS, AT_A_TIME)


def test_make_up_adds_one_at_a_time_and_a_budget_may_leave_none() -> None:
    """It looks after each."""
    assert [5, 4] == [repeats_now(comparison(4, "goes on"), THIS, number) for number in (1, 0)]
