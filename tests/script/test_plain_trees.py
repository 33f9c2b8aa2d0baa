"""Scripts for XGBoost and LightGBM that train in one process, run as ranks for real: what is proved of each.

TRY_TREES_PYTHON names an environment. Mutants break the mechanism, or the proof, in one place.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import leftovers
from tests.script.test_plain import proving
from tests.script.tryout import NO_TREES
from tests.stacks import TREES

pytestmark = pytest.mark.skipif(not TREES, reason=NO_TREES)

SCRIPTS = Path(__file__).parent / "plain_trees"
SKETCH = "quantile sketch of the parts"
EXPECTED: dict[str, dict[str, Any]] = {
    "bound/cross_validation": {"reason": "no train"},
    "bound/lightgbm_file": {"reason": "rows in a file"},
    "equal/xgboost_integers": {},
    "equal/xgboost_ranking": {},
    "named/lightgbm_continuous": {"kind": SKETCH, "elseAgrees": True},
    "named/xgboost_continuous": {"kind": SKETCH, "elseAgrees": True},
    "named/xgboost_subsample": {"kind": "chance", "elseAgrees": False},
}
"""What is proved of each script, besides its outcome."""
CASES = [(name, 2) for name in EXPECTED] + [("equal/xgboost_integers", 3)]
FEW = {("equal/xgboost_integers", 2), ("named/lightgbm_continuous", 2)}
"""Those that are no slow tests."""
MUTANTS = {
    "any_trees": ["named/xgboost_subsample"],
    "groups_apart": ["equal/xgboost_ranking"],
    "unsplit": ["equal/xgboost_integers"],
    "without_exchange": ["equal/xgboost_integers"],
}
"""Scripts of which each mutant says another thing."""


@pytest.fixture(scope="module")
def proved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What is proved of the scripts that are asked for."""
    given = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    cases = [one.params["case"] for one in given if one and "case" in one.params]
    with (
        leftovers.ahead("plain scripts"),
        proving(cases, tmp_path_factory.mktemp("plain"), "", SCRIPTS, TREES) as answers,
    ):
        yield answers


def problems(name: str, answer: dict[str, Any]) -> list[str]:
    """How an answer is not the one that the table has for a script."""
    expected = {"outcome": name.partition("/")[0], **EXPECTED[name], "left": []}
    got = {key: answer.get(key) for key in expected}
    return [] if got == expected else [f"{got}, not {expected}: {answer}"]


def _mark(case: tuple[str, int]) -> Any:
    return pytest.param(case, marks=[] if case in FEW else [pytest.mark.slow], id=f"{case[0]}-{case[1]}")


@pytest.mark.parametrize("case", [_mark(case) for case in CASES])
def test_what_is_proved_is_what_ranks_do(case: tuple[str, int], proved: dict[tuple[str, int], Any]) -> None:
    """Trees that are those of one process are said to be, others are named, and nothing is left in the folder."""
    assert [] == problems(case[0], proved[case].result())


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(MUTANTS))
def test_a_mechanism_that_is_broken_fails_the_table(mutant: str, tmp_path: Path) -> None:
    """Each mutant is seen in at least the scripts that stand for it."""
    names = MUTANTS[mutant]
    cases = [(name, 2) for name in names]
    with leftovers.ahead("a mutant"), proving(cases, tmp_path, mutant, SCRIPTS, TREES) as answers:
        unlike = [name for name in names if problems(name, answers[name, 2].result())]

    assert names == unlike


def test_every_script_is_in_the_table() -> None:
    """Each has an outcome."""
    assert set(EXPECTED) == {f"{path.parent.name}/{path.stem}" for path in SCRIPTS.glob("*/*.py")}
