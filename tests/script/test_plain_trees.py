"""Scripts for XGBoost and LightGBM that train in one process, run as ranks for real: what is proved of each.

TRY_TREES_PYTHON names an environment. Mutants break the mechanism, or the proof, in one place.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LONGEST_SECONDS
from tests.script.proofs import Table, marked
from tests.script.tryout import NO_TREES
from tests.stacks import TREES

pytestmark = pytest.mark.skipif(not TREES, reason=NO_TREES)

SCRIPTS = Path(__file__).parent / "plain_trees"
COMMAND = Path(__file__).parents[2] / "training/workloads/script/spread"
SKETCH = "quantile sketch of the parts"
EXPECTED: dict[str, dict[str, Any]] = {
    "bound/cross_validation": {"reason": "no train"},
    "bound/gblinear": {"reason": "no trees"},
    "bound/lightgbm_file": {"reason": "rows in a file"},
    "equal/lightgbm_sparse": {},
    "equal/xgboost_files": {},
    "equal/xgboost_integers": {},
    "equal/xgboost_ranking": {},
    "named/lightgbm_continuous": {"kind": SKETCH, "elseAgrees": True},
    "named/lightgbm_odd": {"kind": "mean of the parts' means", "elseAgrees": True},
    "named/xgboost_categories": {"kind": SKETCH, "elseAgrees": True},
    "named/xgboost_continuous": {"kind": SKETCH, "elseAgrees": True},
    "named/xgboost_subsample": {"kind": "chance", "elseAgrees": False},
}
"""What is proved of each script, besides its outcome."""
CASES = [(name, 2) for name in EXPECTED] + [("equal/xgboost_integers", 3)]
FEW = {("equal/xgboost_integers", 2), ("named/lightgbm_continuous", 2)}
"""Those that are no slow tests."""
TABLE = Table(
    SCRIPTS,
    TREES,
    EXPECTED,
    mutants={
        "any_trees": ["named/xgboost_subsample"],
        "groups_apart": ["equal/xgboost_ranking"],
        "unsplit": ["equal/xgboost_integers"],
        "without_exchange": ["equal/xgboost_integers"],
    },
)


@pytest.mark.parametrize("case", marked(CASES, FEW))
def test_what_is_proved_is_what_ranks_do(case: tuple[str, int], proved: dict[tuple[str, int], Any]) -> None:
    """Trees that are those of one process are said to be, others are named, and nothing is left in the folder."""
    assert [] == TABLE.problems(case[0], proved[case].result())


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(TABLE.mutants))
def test_a_mechanism_that_is_broken_fails_the_table(mutant: str, tmp_path: Path) -> None:
    """Each mutant is seen in at least the scripts that stand for it."""
    assert [] == TABLE.unseen(mutant, tmp_path)


@pytest.mark.slow
def test_ranks_print_what_the_script_prints(tmp_path: Path) -> None:
    """Also of what it trains otherwise, of files that it reads again, and of another library; this is said."""
    script, runs = str(SCRIPTS / "equal/xgboost_files.py"), []
    plan = [str(COMMAND), "plan", "--framework", "xgboost", "plan.json", script]
    for command in ([script], plan, [str(COMMAND), "ranks", "2", "plan.json", script]):
        runs.append(
            subprocess.run(
                [TREES, *command], cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
            )
        )
        assert 0 == runs[-1].returncode, runs[-1].stderr

    alone, _, ranks = runs
    assert alone.stdout.splitlines()[-1:] == ranks.stdout.splitlines()[-1:]
    assert "`xgboost.cv`" in ranks.stderr


def test_every_script_is_in_the_table() -> None:
    """Each has an outcome."""
    assert set() == TABLE.unlisted()
