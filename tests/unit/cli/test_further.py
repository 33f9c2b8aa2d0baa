"""Whether `rwi up` goes on: while it is not decided, and if another repeat probably ends within the budget."""

import json
from collections.abc import Iterator
from functools import cache

import pytest

from cli.stack.further import ONE_AT_A_TIME, Further
from compare.comparison import compare
from tests.golden import Wording
from tests.unit.results import make_context, make_runs
from training.contract import repeats
from training.contract.repeats import GOES_ON


@cache
def comparison(number: int, auto: str = GOES_ON, minutes: str = "") -> str:
    """A stack's comparison after so many repeats, of which each takes about a minute."""
    settings = {"repeats": "auto"} | ({"budgetMinutes": minutes} if minutes else {})
    made = compare(make_runs(repeats=number), make_context(repeats=number, settings=settings))
    return json.dumps(json.loads(made.to_json()) | {"auto": auto, "answer": "Not decided"})


def further(*seconds: float) -> Further:
    """One that looks at the clock at these."""
    times: Iterator[float] = iter(seconds)
    return Further("It goes on later", lambda: next(times))


@pytest.mark.parametrize("text", [None, *(comparison(4, auto) for auto in ("", "decided", "most repeats"))])
def test_nothing_follows_what_has_ended(text: str | None) -> None:
    """Nor a fixed number of repeats, nor an update that gave no comparison."""
    assert not further(0, 100).is_due(text)


def test_without_a_budget_it_goes_on() -> None:
    """After each repeat, until the comparison says that it has ended."""
    each = further(0, 300, 400, 500)

    assert [True, True, False] == [
        each.is_due(text) for text in (comparison(4), comparison(5), comparison(6, "decided"))
    ]


def test_no_repeat_begins_that_would_end_beyond_the_budget(
    wording: Wording, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the longest that an update with one repeat took; before there was one, by the repeats themselves."""
    each = further(0, 300, 420, 480)

    assert each.is_due(comparison(4, minutes="10"))
    assert each.is_due(comparison(5, minutes="10"))
    assert "" == capsys.readouterr().err
    assert not each.is_due(comparison(6, minutes="9"))
    wording("stack", "".join(capsys.readouterr()))
    assert not further(0, 300).is_due(comparison(4, minutes="5"))


def test_a_budget_that_is_shorter_than_a_repeat_goes_on_with_no_update(
    wording: Wording, capsys: pytest.CaptureFixture[str]
) -> None:
    """So nobody is told that the next one does."""
    assert not further(0, 300).is_due(comparison(4, minutes="1"))
    wording("stack", "".join(capsys.readouterr()))


def test_it_ends_if_an_update_added_nothing() -> None:
    """The program saw no time for another: it would never end."""
    each = further(0, 300, 310)

    assert [True, False] == [each.is_due(comparison(4)) for _ in range(2)]


def test_the_program_reads_what_make_says() -> None:
    """By the same variable."""
    assert [repeats.AT_A_TIME_VARIABLE] == list(ONE_AT_A_TIME)
    assert GOES_ON == repeats.GOES_ON
