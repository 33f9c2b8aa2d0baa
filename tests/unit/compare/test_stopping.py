"""When a measurement of as many repeats as it takes ends: each reason, and what is still open."""

import pytest

from compare.answer import Contest, answer
from compare.comparison import compare
from compare.intervals import WHENEVER, estimate
from compare.schema import BreakEven, Claim, Ending, Estimate
from compare.stopping import ending, repeat_seconds
from compare.value import Missing
from tests.unit.results import make_context, make_runs, replaced, stamp

NOWHERE = BreakEven(probably=None, possibly=None, surely=None)
NONE = Missing("of another test")


def ratio(centre: float, spread: float = 1.01) -> Estimate:
    """Four repeats about a centre."""
    return estimate([centre * spread, centre / spread] * 2, rule=WHENEVER)


def contest(
    now: Estimate | Missing, per_epoch: Estimate | Missing | None = None, meets: BreakEven = NOWHERE
) -> Contest:
    """Ray against some alternative."""
    return Contest(against="", now=now, per_epoch=per_epoch or now, meets=meets)


WON = contest(ratio(1.2), meets=BreakEven(probably=1, possibly=1, surely=1))
LOST, OPEN = contest(ratio(0.8)), contest(ratio(1.0, 1.2))
LATER = contest(ratio(0.9), ratio(1.2), BreakEven(probably=30, possibly=25, surely=40))


@pytest.mark.parametrize(
    ("contests", "claim", "repeats", "expected"),
    [
        ((WON, WON), "same work", 4, "decided"),
        ((LATER, WON), "same work", 4, "decided"),
        ((LOST, OPEN), "same work", 4, "decided"),
        ((WON, OPEN), "same work", 11, "goes on"),
        ((WON, OPEN), "same work", 12, "most repeats"),
        ((contest(ratio(0.8), ratio(1.0, 1.2)), WON), "same work", 4, "goes on"),
        ((contest(ratio(0.8), Missing("one epoch")), WON), "same work", 4, "decided"),
        ((contest(ratio(0.8), ratio(1.2)), WON), "same work", 4, "goes on"),
        ((OPEN, OPEN), "same script", 4, "nothing to decide"),
        ((OPEN, OPEN), None, 4, "nothing to decide"),
        ((contest(NONE), OPEN), "same work", 4, "nothing to decide"),
        ((), "same work", 4, "nothing to decide"),
    ],
)
def test_it_ends_when_no_repeat_could_add_to_the_answer(
    contests: tuple[Contest, ...], claim: Claim | None, repeats: int, expected: Ending
) -> None:
    """All won; an E known; one lost now and per epoch; nothing that could be decided; or enough of it."""
    assert expected == ending(answer(contests, claim), contests, claim, repeats)


def test_a_repeat_that_was_interrupted_takes_no_longer() -> None:
    """A night between its runs is no part of it: with a budget the measurement would never go on."""
    runs = make_runs(repeats=4)
    day = 86_400.0
    late = [
        replaced(run, started_at=stamp(run.arm, run.repeat, later=day))
        if (run.repeat, run.arm) == (3, "ray") or run.repeat == 4
        else run
        for run in runs
    ]
    through, resumed = (repeat_seconds(compare(each, make_context(repeats=4))) for each in (runs, late))
    seconds = [run.result.seconds.wall for run in runs if run.repeat == 4]

    assert through == pytest.approx(resumed, rel=0.05)
    assert sum(seconds) < through < sum(seconds) + 3 * 25
