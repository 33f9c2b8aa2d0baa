"""What is claimed of scripts that do not do the same work, and of correct ones that look odd: tests/script/adversaries.

A few of them; all (minutes) by `python -m tests.script.adversaries`, and in CI as many as it has time for.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import leftovers
from tests.script.adversaries.case import SCRIPTS, Case
from tests.script.adversaries.measure import Got, got, missing, problems
from tests.script.adversaries.table import BEYOND, CASES, RIGHT, WRONG

FEW = [case for case in CASES if case.quick]
AT_ONCE = 2
"""Cases that are run at a time: nothing that is looked at is a time."""


@pytest.fixture(scope="module")
def coming(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kept: Path) -> Iterator[object]:
    """What comes of each case that is asked for, by name; they are run while tests wait for the first ones."""
    folder = tmp_path_factory.mktemp("adversaries")
    given = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    cases: list[Case] = [one.params["case"] for one in given if one]
    with leftovers.ahead("adversaries"), ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case.name: pool.submit(got, case, folder / case.name, kept) for case in cases if not missing(case)}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_what_is_claimed_is_what_is_known(case: Case, coming: dict[str, Future[Got]]) -> None:
    """Unlike arms are not comparable, correct ones are not accused, and what is not known lowers the claim by name;
    Ray, whose clock is made 3 times as fast, is never said to be faster at that."""
    if why := missing(case):
        pytest.skip(why)

    came = coming[case.name].result()

    assert [] == problems(case, came), came.comparison.verdict


def test_every_script_has_its_case() -> None:
    """None lies there untried, none is named that is not there, and every patch fits its base."""
    files = [*SCRIPTS.glob("*/*.py"), *SCRIPTS.glob("*/*.patch")]
    cases = [case.name for case in (*CASES, *BEYOND)]

    assert sorted(cases) == sorted(str(path.relative_to(SCRIPTS).with_suffix("")) for path in files)
    assert all(compile(case.text, case.name, "exec") for case in (*CASES, *BEYOND))


def test_most_correct_scripts_reach_the_strongest_claim() -> None:
    """A rule that knows nothing would accuse nobody: of the correct ones at least 18 have to be known to do the same
    work. Where two outcomes are honest, the table says why."""
    assert len([case for case in RIGHT if case.outcomes == {"same work"}]) >= 18
    assert len([case for case in WRONG if case.outcomes == {"not comparable"}]) >= 22
    assert all(case.why for case in CASES if len(case.outcomes) > 1)
