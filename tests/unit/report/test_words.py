"""Words that the table and the page share: what a few runs do not show is not known, and is no *never*."""

from dataclasses import replace

import pytest

from compare.comparison import compare
from compare.schema import BreakEven
from report import words
from report.table import render
from tests.unit.results import make_context, make_runs

COMPARISON = compare(make_runs(), make_context())


def meets(possibly: int | None, probably: int | None, surely: int | None) -> BreakEven:
    """Where clocks meet, from the interval's upper end to its lower one."""
    return BreakEven(possibly=possibly, probably=probably, surely=surely)


@pytest.mark.parametrize(
    ("value", "repeats", "numbers", "verdict"),
    [
        (meets(9, 12, 20), 3, ["9", "12", "20"], ""),
        (meets(9, 12, None), 3, ["9", "12"], words.NOT_KNOWN),
        (meets(9, None, None), 3, ["9"], words.NOT_KNOWN),
        (meets(None, None, None), 3, [], words.none("epoch")),
        (None, 3, [], words.NOT_KNOWN),
        # One repeat has no interval
        (meets(None, 12, None), 1, ["12"], ""),
        (meets(None, None, None), 1, [], words.NOT_KNOWN),
    ],
)
def test_a_break_even_is_none_only_where_the_whole_interval_stays_behind(
    value: BreakEven | None, repeats: int, numbers: list[str], verdict: str
) -> None:
    """Everything else that has no number is not known."""
    text = words.break_even_against(value, repeats)

    assert [number for number in numbers if number not in text] == []
    none = words.none("epoch")
    assert (words.NOT_KNOWN in text, text == none) == (verdict == words.NOT_KNOWN, verdict == none)
    assert "never" not in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (meets(9, None, None), words.NOT_KNOWN),
        (meets(None, None, None), words.none("epoch")),
        (None, words.NOT_KNOWN),
    ],
)
def test_the_whole_break_even_follows_the_worst_alternative(value: BreakEven | None, expected: str) -> None:
    """In the table's row, too; a number is a number."""
    without = replace(COMPARISON, break_even={"baseline": value}, break_even_epochs=None)
    row = next(line for line in render(without).splitlines() if line.startswith("breakEvenEpochs"))

    assert words.break_even(without) == expected
    assert row.endswith(expected)
    assert words.break_even(COMPARISON).startswith(str(COMPARISON.break_even_epochs))


def test_the_estimate_says_what_it_rests_on() -> None:
    """Of a quiet machine nothing more; else why it may be far off."""
    beside = replace(COMPARISON, reasons=COMPARISON.reasons | {"verdict.otherPrograms": "Other programs took 1.6"})
    disturbed, unknown = (
        replace(each, checks=COMPARISON.checks | {"machineQuiet": None}) for each in (beside, COMPARISON)
    )
    texts = [words.doubt(each) for each in (COMPARISON, disturbed, unknown)]

    assert not texts[0]
    assert not words.doubt(beside)  # no run waited for them
    assert len(set(texts)) == 3
    for text, each in zip(texts, (COMPARISON, disturbed, unknown), strict=True):
        assert text in " ".join(render(each).split())
