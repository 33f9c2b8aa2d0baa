"""Scripts for Keras 3 on PyTorch that train in one process, run as ranks for real: what is proved of each.

The scripts are ordinary ones, in a folder for each outcome; what proves them, and its mutants, are those of PyTorch's.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.script.proofs import Table, marked
from tests.script.tryout import NO_KERAS
from tests.stacks import KERAS_TORCH

pytestmark = pytest.mark.skipif(not KERAS_TORCH, reason=NO_KERAS)

SCRIPTS = Path(__file__).parent / "plain_keras_torch"
COMMAND = Path(__file__).parents[2] / "training/workloads/script/spread"
EXPECTED: dict[str, dict[str, Any]] = {
    "bound/by_hand": {"reason": "by hand"},
    "bound/generator": {"reason": "iterable"},
    "equal/classes": {},
    "equal/fit": {},
    "equal/on_batch": {},
    "equal/own_loop": {},
    "equal/own_optimizer": {},
    "named/batch_norm": {"kind": "statistics", "elseAgrees": True},
    "named/dropout": {"kind": "chance", "elseAgrees": True},
    "named/kept_statistics": {"kind": "statistics", "elseAgrees": True},
    "named/sum": {"kind": "sum", "elseAgrees": True},
}
"""What is proved of each script, besides its outcome."""
CASES = [(name, 2) for name in EXPECTED] + [("equal/fit", 3)]
FEW = {("equal/fit", 2)}
"""Those that are no slow tests."""
TABLE = Table(
    SCRIPTS,
    KERAS_TORCH,
    EXPECTED,
    mutants={
        "keras_steps_unknown": ["equal/fit"],
        "keras_weights_unknown": ["equal/own_loop"],
        "keras_passes_alike": ["equal/fit"],
        "in_32_bits": ["equal/fit"],
        "without_weights": ["equal/fit"],
    },
)


@pytest.mark.parametrize("case", marked(CASES, FEW))
def test_what_is_proved_is_what_ranks_do(case: tuple[str, int], proved: dict[tuple[str, int], Any]) -> None:
    """Ranks that do the work of the single process are said to, others are named, and nothing is left in the folder."""
    assert [] == TABLE.problems(case[0], proved[case].result())


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(TABLE.mutants))
def test_a_mechanism_that_is_broken_fails_the_table(mutant: str, tmp_path: Path) -> None:
    """Each mutant is seen in at least the scripts that stand for it."""
    assert [] == TABLE.unseen(mutant, tmp_path)


@pytest.mark.slow
def test_a_script_for_tensorflow_finds_its_backend(tmp_path: Path) -> None:
    """One that imports Keras alone may be for TensorFlow; on which backend it runs is known when it runs."""
    file = tmp_path / "proof.json"
    command = [KERAS_TORCH, str(COMMAND), "prove", "--framework", "tensorflow", "--seconds", "600"]
    subprocess.run(
        [*command, "--write", str(file), "--", str(SCRIPTS / "equal/fit.py")],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    outcome = json.loads(file.read_text(encoding="utf-8"))

    assert ("equal", "torch") == (outcome["outcome"], outcome["plan"]["framework"]), outcome


def test_every_script_is_in_the_table() -> None:
    """Each has an outcome."""
    assert set() == TABLE.unlisted()
