"""Each kind of script that the docs name, with the real thing: recognised, run to its end in its arms, and its claim.

RLlib's is in test_reinforcement. What is not installed in TRY_PYTHON's or TRY_TREES_PYTHON's environment is skipped.
"""

from pathlib import Path

import pytest

from tests.script.adversaries.case import Case
from tests.script.adversaries.measure import compared, missing, results_of
from tests.script.adversaries.table import CASES
from training.workloads.script.recognise import recognise

KINDS = {
    "right/plain": "torchrun",
    "right/accelerate_quick_tour": "torchrun",
    "right/lightning_trainer": "torchrun",
    "right/transformers_trainer": "torchrun",
    "right/spawn": "spawn",
    "right/ray_train_checkpoints": "ray-torch",
    "right/xgboost_own_share": "ray-xgboost",
    "right/lightgbm_own_share": "ray-lightgbm",
    "right/keras_fit": "tf-config",
    "right/keras_own_loop": "tf-config",
}
"""By the script of tests/script/adversaries."""
SLOW = "right/keras_own_loop"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name == SLOW else [])
        for case in CASES
        if case.name in KINDS
    ],
)
def test_a_kind_is_recognised_and_ends_well_in_every_arm(case: Case, tmp_path: Path, kept: Path) -> None:
    """With the claim that the docs promise for it, and as many ranks as there are workers."""
    assert KINDS[case.name] == recognise(case.write(tmp_path / "script"), tuple(case.arguments.split())).kind
    if why := missing(case):
        pytest.skip(why)

    results = results_of(case, tmp_path / "run", kept)

    assert all(KINDS[case.name] == result.detail.kind for result in results.values())
    assert 2 == max(result.world_size or 2 for result in results.values())
    assert compared(results).claim in case.outcomes
