"""What `rwi why` says is true together with 95 %, by simulation through the project's own functions."""

import pytest

from compare import why
from compare.intervals import CONFIDENCE, WHENEVER
from tests.simulations import causes
from tests.simulations.causes import NOISES, OFFSET, Case, named, tally
from tests.unit.compare.test_sequential import at_most

PATHS = 300
TRIES = pytest.mark.parametrize("tries", [50, pytest.param(100, marks=pytest.mark.slow)])
"""Of a whole `rwi why`: each takes some milliseconds."""


@pytest.mark.parametrize("noise", NOISES)
@TRIES
def test_whatever_it_says_errs_in_at_most_5_percent(tries: int, noise: str) -> None:
    """Conditions, clocks, ranks and distribution together, with nothing planted but what some input costs."""
    found = tally(Case(ranks=2, noise=noise, offset=OFFSET, input_share=0.1), tries)

    assert found.wrong.get("anything", 0) / tries <= at_most(0.05, tries)


def test_intervals_of_95_percent_each_would_err_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(why, "confidence", lambda _: CONFIDENCE)
    found = tally(Case(ranks=2, input_share=0.1), 100)

    assert found.wrong["anything"] / 100 > at_most(0.05, 100)


@pytest.mark.parametrize(
    "case", [Case(ranks=2, input_share=0.2), Case(ranks=2, between_share=0.1), Case(ranks=8, rank_share=0.2)]
)
def test_what_is_planted_comes_first(case: Case) -> None:
    """Corrected intervals find it all the same."""
    assert tally(case, 20).planted_first == 20


@pytest.mark.parametrize(("ranks", "paths"), [(2, PATHS), (8, 120), pytest.param(8, PATHS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("offset", [0.0, OFFSET])
def test_equal_ranks_are_seldom_named(ranks: int, paths: int, offset: float) -> None:
    """Whether or not each has its own pace in a run: after one repeat never, after more in at most 5 %."""
    equal = Case(ranks=ranks, offset=offset)

    assert [] == named(equal, (1,), CONFIDENCE, paths)
    assert len(named(equal, (4,), CONFIDENCE, paths)) / paths <= at_most(0.05, paths)
    assert len(named(equal, tuple(range(4, 13)), WHENEVER.confidence, paths)) / paths <= at_most(0.05, paths)


def test_a_slow_rank_is_named_after_some_repeats() -> None:
    """One that is slower by four times what ranks differ by themselves, after 8 in nearly all measurements."""
    names = named(Case(ranks=4, offset=OFFSET, rank_share=0.2), (8,), CONFIDENCE, PATHS)

    assert names.count(1) >= 0.97 * PATHS


def test_the_command_prints_its_tables() -> None:
    """A row a case, each with as many cells as its title."""
    for lines in (causes.whys_table(1, causes.CASES[:2]), causes.ranks_table(1), causes.stopped_table(1)):
        assert len({line.count("|") for line in lines}) == 1
