"""Scripts for tf-keras that train in one process, run as ranks for real: what is proved of each.

The scripts are ordinary ones, in a folder for each outcome. Mutants break the mechanism in one place.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.script.proofs import Table, marked

SCRIPTS = Path(__file__).parent / "plain_keras"
COMMAND = Path(__file__).parents[2] / "training/workloads/script/spread"
EXPECTED: dict[str, dict[str, Any]] = {
    "bound/no_fit": {"reason": "no fit"},
    "bound/own_loop": {"reason": "own loop"},
    "equal/arrays": {},
    "equal/callbacks": {},
    "equal/data_files": {},
    "equal/dataset": {},
    "equal/embedding": {},
    "equal/on_batch": {},
    "equal/sequence": {},
    "equal/strategy": {},
    "named/augmentation": {"kind": "chance", "elseAgrees": True},
    "named/batch_norm": {"kind": "statistics", "elseAgrees": True},
    "named/dropout": {"kind": "chance", "elseAgrees": True},
    "named/own_loss": {"kind": "part", "elseAgrees": False},
    "named/sum": {"kind": "summed", "elseAgrees": True},
    "named/unseeded": {"kind": "chance", "elseAgrees": False},
}
"""What is proved of each script, besides its outcome."""
CASES = [(name, 2) for name in EXPECTED] + [("equal/arrays", 3), ("named/sum", 3)]
FEW = {("equal/arrays", 2)}
"""Those that are no slow tests."""
TABLE = Table(
    SCRIPTS,
    sys.executable,
    EXPECTED,
    mutants={
        "in_32_bits": ["equal/arrays"],
        "shared_files": ["equal/callbacks"],
        "unsplit": ["equal/arrays"],
        "unsplit_and_uncounted": ["equal/arrays"],
        "without_exchange": ["equal/arrays"],
        "without_weights": ["equal/arrays"],
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
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("as_tf_keras", {"outcome": "equal", "environment": {"TF_USE_LEGACY_KERAS": "1"}}),
        ("keras_three", {"outcome": "bound", "reason": "Keras 3 on TensorFlow"}),
    ],
)
def test_keras_three_is_tried_as_another(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    """As tf-keras, where it runs so; there is no PyTorch here."""
    command = [
        sys.executable,
        str(COMMAND),
        "prove",
        "--framework",
        "tensorflow",
        "--",
        str(SCRIPTS / f"other/{name}.py"),
    ]
    answer = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout)

    assert expected == {key: answer.get(key) for key in expected}


def test_every_script_is_in_the_table() -> None:
    """Each has an outcome."""
    assert set() == TABLE.unlisted()


@pytest.mark.slow
def test_ranks_print_what_the_script_prints(tmp_path: Path) -> None:
    """By `plan` and `ranks`, once, and as alone."""
    script = str(SCRIPTS / "equal/arrays.py")
    printed = []
    plan = ["plan", "--framework", "tensorflow", "plan.json", script]
    for command in ([script], [str(COMMAND), *plan], [str(COMMAND), "ranks", "2", "plan.json", script]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True)
        printed.append(done.stdout)

    assert printed[0] == printed[2]
