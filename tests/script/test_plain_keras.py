"""Scripts for tf-keras that train in one process, run as ranks for real: what is proved of each.

The scripts are ordinary ones, in a folder for each outcome. Mutants break the mechanism in one place.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.script.proofs import differences, marked, of_table, proving

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
MUTANTS = {
    "in_32_bits": ["equal/arrays"],
    "shared_files": ["equal/callbacks"],
    "unsplit": ["equal/arrays"],
    "unsplit_and_uncounted": ["equal/arrays"],
    "without_exchange": ["equal/arrays"],
    "without_weights": ["equal/arrays"],
}
"""Scripts of which each mutant says another thing."""


@pytest.fixture(scope="module")
def proved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What is proved of the scripts that are asked for."""
    with of_table(request, tmp_path_factory.mktemp("plain"), SCRIPTS, sys.executable) as answers:
        yield answers


def problems(name: str, answer: dict[str, Any]) -> list[str]:
    """How an answer is not the one that the table has for a script."""
    return differences(name, answer, {**EXPECTED[name], "left": []})


@pytest.mark.parametrize("case", marked(CASES, FEW))
def test_what_is_proved_is_what_ranks_do(case: tuple[str, int], proved: dict[tuple[str, int], Any]) -> None:
    """Ranks that do the work of the single process are said to, others are named, and nothing is left in the folder."""
    assert [] == problems(case[0], proved[case].result())


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(MUTANTS))
def test_a_mechanism_that_is_broken_fails_the_table(mutant: str, tmp_path: Path) -> None:
    """Each mutant is seen in at least the scripts that stand for it."""
    names = MUTANTS[mutant]
    cases = [(name, 2) for name in names]
    with proving(cases, tmp_path, SCRIPTS, sys.executable, mutant) as answers:
        unlike = [name for name in names if problems(name, answers[name, 2].result())]

    assert names == unlike


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
    there = {f"{path.parent.name}/{path.stem}" for path in SCRIPTS.glob("*/*.py")}

    assert set(EXPECTED) == {name for name in there if not name.startswith("other/")}


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
