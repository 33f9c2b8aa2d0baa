"""Scripts that train in one process, run as ranks for real: what is proved of each. TRY_PYTHON names an environment.

The scripts are ordinary ones, in a folder for each outcome. Mutants break the mechanism in one place.
"""

import subprocess
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import leftovers
from tests.limits import LONGEST_SECONDS
from tests.script.proofs import Table, marked, proving
from tests.script.tryout import NO_TORCH
from tests.stacks import TORCH

pytestmark = pytest.mark.skipif(not TORCH, reason=NO_TORCH)

SCRIPTS = Path(__file__).parent / "plain"
NAMED = {
    "augmentation": "chance",
    "augmentation_workers": "chance",
    "batch_norm": "statistics",
    "batch_norm_dropout": "statistics",
    "batch_norm_sum": "sum",
    "class_weights": "weights",
    "collated_chance": "chance",
    "contrastive": "statistics",
    "dropout": "chance",
    "dropout_sum": "sum",
    "fixed_divisor": "sum",
    "hard_rows": "statistics",
    "kept_statistics": "statistics",
    "mixup": "chance",
    "noise": "chance",
    "own_loss_end": "apart",
    "own_loss_schedule": "ranks differ",
    "own_statistics": "statistics",
    "part": "part",
    "root": "function",
    "sum": "sum",
    "sum_adam": "sum",
    "tokens": "weights",
}
"""What ranks do else, by script."""
AGREE = {
    "augmentation", "augmentation_workers", "batch_norm", "batch_norm_dropout", "batch_norm_sum", "class_weights",
    "collated_chance", "dropout", "dropout_sum", "fixed_divisor", "kept_statistics", "noise", "sum", "sum_adam",
    "tokens",
}  # fmt: skip
"""Those of which all else agrees."""
BOUND = {
    "batch_norm_one_row": "ranks fail",
    "batches_of_one": "not split",
    "by_hand": "by hand",
    "by_hand_validated": "not split",
    "fixed_batch": "other steps",
    "fixed_type": "not in 64 bits",
    "grad": "torch.autograd.grad",
    "iterable": "iterable",
    "mostly_by_hand": "not split",
    "no_gradients": "no backward",
    "own_optimizer": "own optimizer",
    "replay": "by hand",
    "unbatched": "unbatched",
    "whole_data": "by hand",
}
"""Why a script can't be split."""
THREE = [
    "equal/plain", "equal/one_row", "equal/accumulation", "equal/best_weights", "equal/unused", "equal/adversarial",
    "named/sum_adam", "named/tokens", "named/dropout", "bound/mostly_by_hand",
]  # fmt: skip
"""Scripts that three ranks run, too."""
CASES = [(f"{path.parent.name}/{path.stem}", 2) for path in sorted(SCRIPTS.glob("*/*.py"))] + [(n, 3) for n in THREE]
FEW = {
    ("bound/by_hand", 2), ("equal/plain", 2), ("equal/validation_with_gradients", 2), ("named/batch_norm", 2),
    ("named/sum_adam", 2),
}  # fmt: skip
"""Those that are no slow tests."""
TABLE = Table(
    SCRIPTS,
    TORCH,
    expected={name: {} for name, _ in CASES}
    | {f"named/{name}": {"kind": kind, "elseAgrees": name in AGREE} for name, kind in NAMED.items()}
    | {f"bound/{name}": {"reason": reason} for name, reason in BOUND.items()},
    mutants={
        "all_split": ["equal/validation_with_gradients"],
        "full_disk": ["equal/plain"],
        "in_32_bits": ["equal/plain", "named/sum_adam"],
        "own_chance": ["equal/no_seed"],
        "repeated_work": ["bound/by_hand_validated"],
        "shared_files": ["equal/own_files"],
        "split_twice": ["equal/plain"],
        "unkeyed": ["named/dropout"],
        "unused_left_out": ["equal/random_depth"],
        "without_a_rank": ["equal/plain"],
        "without_weights": ["equal/plain", "equal/infinite", "equal/frozen"],
    },
)

PORTS = {
    "equal/plain": "",
    "equal/best_weights": "",
    "equal/finetuning": "",
    "equal/main_below": "",
    "equal/no_seed": "",
    "equal/recurrent": "",
    "equal/trainer": "",
    "equal/two_optimizers": "",
    "equal/workers": "",
    "named/augmentation": "",
    "named/batch_norm_dropout": "",
    "equal/drop_last": "no multiple of 2",
    "equal/functional": "no optimizer is made from model.parameters()",
    "equal/method": "the weights of the port are others",
    "equal/numpy_chance": "the weights of the port are others",
    "equal/unused": "not subscriptable",
    "named/sum": "the weights of the port are others",
    "named/sum_adam": "the weights of the port are others",
}
"""Why no port of a script is given, or "" where it is."""
PORTS_OF_MUTANTS = {
    "port_without_shares": "splits no rows",
    "port_without_exchange": "the weights of the port are others",
}


@pytest.mark.parametrize("case", marked(CASES, FEW))
def test_what_is_proved_is_what_ranks_do(case: tuple[str, int], proved: dict[tuple[str, int], Future[Any]]) -> None:
    """Ranks that do the work of the single process are said to, others are named, and nothing is left in the folder."""
    assert [] == TABLE.problems(case[0], proved[case].result())


@pytest.mark.parametrize("name", ["named/sum", "named/batch_norm"])
def test_the_line_is_that_of_the_backward_pass(name: str, proved: dict[tuple[str, int], Future[Any]]) -> None:
    """A loss in a library's function is named where the user calls it."""
    if (name, 2) not in proved:
        pytest.skip("slow: its script is not proved here")
    path = SCRIPTS / f"{name}.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if ".backward()" in text)

    assert f"{path}:{line}" == proved[name, 2].result()["line"]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(TABLE.mutants))
def test_a_mechanism_that_is_broken_fails_the_table(mutant: str, tmp_path: Path) -> None:
    """Each mutant is seen in at least the scripts that stand for it."""
    assert [] == TABLE.unseen(mutant, tmp_path)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_port_is_given_where_its_weights_are_those_of_one_process(tmp_path: Path, *, slow: bool) -> None:
    """Elsewhere the reason is."""
    names = list(PORTS) if slow else ["equal/best_weights", "named/batch_norm_dropout", "named/sum_adam"]
    with proving([(name, 2) for name in names], tmp_path, SCRIPTS, TORCH, PORT="1") as answers:
        found = {name: answers[name, 2].result() for name in names}

    assert [] == [
        (name, answer)
        for name, answer in found.items()
        if ("diff" in answer) == bool(PORTS[name]) or PORTS[name] not in answer.get("reason", "") or answer["left"]
    ]


def test_a_port_is_one_of_the_user_s_text(tmp_path: Path) -> None:
    """Applied, it is run by torchrun, and its ranks save their best weights once: whatever its lines end with and are
    indented by, and whatever it is encoded in and called."""
    text = (SCRIPTS / "equal/best_weights.py").read_text(encoding="utf-8").rstrip()
    text = f"# coding: latin-1\n{text}  # \xe9".replace("    ", "\t").replace("\n", "\r\n")
    script = tmp_path / "best weights.py"
    script.write_bytes(text.encode("latin-1"))
    case, work = (str(script.with_suffix("")), 2), tmp_path / "work"
    work.mkdir()
    with proving([case], work, SCRIPTS, TORCH, PORT="1") as answers:
        answer = answers[case].result()
    diff = answer["diff"].encode(answer["encoding"])
    subprocess.run(["patch", "-p0"], input=diff, cwd=tmp_path, check=True, capture_output=True)
    torchrun = [TORCH, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    subprocess.run(torchrun, cwd=tmp_path, check=True, capture_output=True, timeout=LONGEST_SECONDS)

    assert ["best.pt"] == [path.name for path in (tmp_path / "kept").iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", list(PORTS_OF_MUTANTS))
def test_a_port_that_is_broken_is_not_given(mutant: str, tmp_path: Path) -> None:
    """One whose ranks all compute the same rows, and one without exchange."""
    with proving([("equal/plain", 2)], tmp_path, SCRIPTS, TORCH, mutant, PORT="1") as answers:
        answer = answers["equal/plain", 2].result()

    assert "none" == answer["outcome"]
    assert PORTS_OF_MUTANTS[mutant] in answer["reason"]


def test_files_of_a_rank_are_its_own(tmp_path: Path) -> None:
    """It reads back what it wrote, moved and removed, as it would alone, and none of it is in the folder."""
    printed = []
    alone, rank = tmp_path / "alone", tmp_path / "rank"
    for folder, arguments in ((alone, []), (rank, ["as a rank"])):
        (folder / "old/sub").mkdir(parents=True)
        for name in "ab":
            (folder / f"old/{name}.txt").write_text(name)
        command = [TORCH, str(SCRIPTS / "layered.py"), *arguments]
        printed.append(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)

    assert printed[0] == printed[1]
    assert ["old", "old/a.txt", "old/b.txt", "old/sub"] == sorted(
        str(path.relative_to(rank)) for path in rank.rglob("*")
    )


def test_what_the_proof_did_not_see_is_said(tmp_path: Path) -> None:
    """Ranks run to the end with the first one's files alone; where the script trains otherwise later, that is said."""
    spread = str(Path(__file__).parents[2] / "training/workloads/script/spread")
    script, work = str(SCRIPTS / "later.py"), tmp_path / "work"
    work.mkdir()
    plan = str(tmp_path / "plan.json")
    run = partial(subprocess.run, cwd=work, capture_output=True, text=True, check=True)
    with leftovers.ahead("ranks of a plain script"):
        run([TORCH, spread, "plan", plan, script])
        done = run([TORCH, spread, "ranks", "2", plan, script])

    said = [line for line in done.stderr.splitlines() if line.startswith("not proved: ")]
    assert ["model.pt"] == [path.name for path in work.iterdir()]
    assert ["11", "21", "26", "36"] == [line.partition("backward pass ")[2].partition(" ")[0] for line in said]
    assert all(
        part in line
        for part, line in zip(("AbsBackward0", " loader ", "training=True", "pos_weight"), said, strict=True)
    )


def test_every_script_is_in_the_table() -> None:
    """Each has an outcome, and its kind or reason."""
    named, bound = ({path.stem for path in (SCRIPTS / folder).glob("*.py")} for folder in ("named", "bound"))

    assert (named, bound) == (set(NAMED), set(BOUND))
    assert set(AGREE) <= named
