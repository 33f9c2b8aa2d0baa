"""Whether repeats resemble their neighbours: it is said from 8 repeats on, and only if something lasted."""

from collections.abc import Sequence

import pytest

from compare.comparison import compare
from compare.lasting import FIRST, LEVEL, chance
from compare.measurement import Run
from tests.golden import Wording
from tests.unit.results import RUN, make_context, make_run

KEY = "verdict.lasting"
WALL_SECONDS = 100.0
LASTS = (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0)
ALTERNATES = (1.0, 2.0) * 4


def runs_of(paces: Sequence[float], arms: Sequence[str] = ("ray",)) -> list[Run]:
    """Runs of which these arms take so many times as long in each repeat."""
    return [
        make_run(arm, repeat, wall_seconds=WALL_SECONDS * (pace if arm in arms else 1.0))
        for repeat, pace in enumerate(paces, 1)
        for arm in RUN
    ]


def reasons_of(runs: Sequence[Run]) -> dict[str, str]:
    """The reasons of their comparison."""
    return compare(runs, make_context(repeats=len(runs) // len(RUN))).reasons


def test_an_arms_luck_that_lasts_qualifies_the_verdict(wording: Wording) -> None:
    """Ray's runs are slow in the last four repeats, one after another."""
    reasons = reasons_of(runs_of(LASTS))

    wording("verdict", reasons[KEY])


@pytest.mark.parametrize(
    "runs",
    [runs_of(ALTERNATES), runs_of(LASTS, RUN), runs_of(LASTS[1:]), runs_of((1.0,) * FIRST)],
    ids=["it alternates", "the machine drifts", "too few repeats", "nothing differs"],
)
def test_nothing_else_does(runs: Sequence[Run]) -> None:
    """What all arms share does no harm, and fewer repeats cannot show it."""
    assert KEY not in reasons_of(runs)


def test_the_same_repeats_give_the_same_chance() -> None:
    """The permutations are seeded; they are of whole repeats, so it does not matter whose luck it is."""
    clocks = [[pace, 0.0, 0.0] for pace in LASTS]

    assert chance(clocks) == chance(clocks) == chance([clock[::-1] for clock in clocks]) < LEVEL
