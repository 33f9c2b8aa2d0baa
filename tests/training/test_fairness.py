"""The fairness rules, on real processes under TensorFlow's real strategy: what each rank saw, and what it learned."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.limits import LONGEST_SECONDS
from training.contract.recipe import batch_split
from training.machine.ports import held_ports

PROJECT = Path(__file__).resolve().parents[2]
CASES: dict[str, dict[str, Any]] = {
    "even": {"model": "plain", "global_batch_size": 36, "train_images": 80},
    "uneven": {"model": "plain", "global_batch_size": 35, "train_images": 160},
    "short last batch": {"model": "plain", "global_batch_size": 71, "train_images": 80},
    "ids": {"model": "plain", "global_batch_size": 6, "train_images": 41},
    "augmented": {"model": "plain", "global_batch_size": 35, "train_images": 80, "augmentation": "flip-crop"},
    "statistics over all": {
        "model": "normalised", "global_batch_size": 36, "train_images": 80, "sync_batch_norm": True,
    },
    "statistics over all, short last batch": {
        "model": "normalised", "global_batch_size": 71, "train_images": 81, "sync_batch_norm": True,
    },
    "statistics, short last batch": {"model": "normalised", "global_batch_size": 71, "train_images": 80},
    "statistics": {"model": "normalised", "global_batch_size": 36, "train_images": 80},
    "compressed": {
        "model": "plain", "global_batch_size": 36, "train_images": 80, "gradient_precision": "bfloat16",
    },
    "half precision": {"model": "plain", "global_batch_size": 36, "train_images": 80, "precision": "bfloat16"},
}  # fmt: skip
JUDGED = ("even", "statistics")
"""Those whose replicas also judge what they learned: alike, and each with averages of its own."""
THREE = pytest.param(3, marks=pytest.mark.slow)
"""Workers whose processes train all cases once more, in as much time as those of one and two together."""
Found = dict[str, Any]
Ranks = Callable[[int], list[Found]]
"""What every rank of a world of this size found."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """What every rank of a world of this size found, in all cases; each world runs once."""
    known: dict[int, list[Found] | str] = {}

    def of(world: int) -> list[Found]:
        if world not in known:
            known[world] = _run(world, tmp_path_factory.mktemp(f"world-{world}"))
        found = known[world]
        if isinstance(found, str):  # said by every test, but run and waited for once
            pytest.fail(found)
        return found

    return of


def _run(world: int, folder: Path) -> list[Found] | str:
    cases = CASES | {"ids": CASES["ids"] | {"global_batch_size": world}}
    with held_ports(world) as ports:
        processes = [_peer(rank, ports, folder, cases) for rank in range(world)]
        codes = [process.wait(timeout=LONGEST_SECONDS) for process in processes]
    logs = "\n".join((folder / f"{rank}.log").read_text()[-2000:] for rank in range(world))
    if any(codes):
        return f"ranks ended with {codes}:\n{logs}"
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(world)]


def _peer(rank: int, ports: list[int], folder: Path, cases: dict[str, Any]) -> subprocess.Popen[bytes]:
    spec = {"rank": rank, "world": len(ports), "out": str(folder / f"{rank}.npz"), "cases": cases, "judged": JUDGED}
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    if len(ports) > 1:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    command = [sys.executable, str(PROJECT / "tests" / "training" / "peer.py"), json.dumps(spec)]
    with (folder / f"{rank}.log").open("w") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


@pytest.mark.parametrize("world", [1, 2, THREE])
def test_shards_are_disjoint_and_cover_the_data_set(ranks: Ranks, world: int) -> None:
    """Rule 2: with one image a worker and step, the sum of rows that a rank reports is the row."""
    found = ranks(world)

    rows = [int(row) for one in found for _, _, count, row in one["ids/sums"] if count]

    assert found[0]["ids/rows"].tolist() == sorted(rows)


@pytest.mark.parametrize("world", [2, THREE])
@pytest.mark.parametrize(
    "case",
    [
        "even",
        "uneven",
        "short last batch",
        "augmented",
        "statistics over all",
        "statistics over all, short last batch",
    ],
)
def test_workers_together_learn_what_one_process_learns(ranks: Ranks, world: int, case: str) -> None:
    """Rules 1 and 3: after every step the weights are those of one process on the whole batch, however it divides."""
    alone, together = ranks(1)[0], ranks(world)[0]

    difference = np.abs(alone[f"{case}/weights"] - together[f"{case}/weights"]).max(axis=1)

    assert difference.max() < 5e-5
    assert np.abs(np.diff(alone[f"{case}/weights"], axis=0)).max(axis=1).min() > 1e-4, "nothing was learned"


@pytest.mark.parametrize("world", [2, THREE])
@pytest.mark.parametrize("case", CASES)
def test_weights_are_equal_on_all_workers_after_every_step(ranks: Ranks, world: int, case: str) -> None:
    """Rule 3: gradients are really synchronised, to the last bit."""
    first, *others = [one[f"{case}/weights"] for one in ranks(world)]

    for other in others:
        assert np.array_equal(first, other)


@pytest.mark.parametrize("world", [1, 2, THREE])
def test_a_step_is_split_as_evenly_as_can_be(ranks: Ranks, world: int) -> None:
    """Rule 1: every rank's share of a whole batch and of the last one is `batch_split`; a rank may get none."""
    counts = [[int(step[2]) for step in one["short last batch/sums"]] for one in ranks(world)]

    assert [batch_split(71, world), batch_split(1, world)] == [list(step) for step in zip(*counts, strict=True)]


@pytest.mark.parametrize("world", [2, THREE])
def test_workers_together_evaluate_as_one_process_does(ranks: Ranks, world: int) -> None:
    """Each rank judges a part; the sums are those of the whole."""
    alone, together = ranks(1)[0], ranks(world)[0]

    assert alone["even/confusion"].tolist() == together["even/confusion"].tolist()
    assert float(together["even/loss"]) == pytest.approx(float(alone["even/loss"]), abs=1e-4)


def test_compressed_gradients_differ_a_little(ranks: Ranks) -> None:
    """`gradientPrecision` does something, and not much."""
    found = ranks(2)[0]

    difference = np.abs(found["even/weights"] - found["compressed/weights"]).max()

    assert 0 < difference < 0.01


def test_statistics_of_each_replica_differ_from_those_of_all(ranks: Ranks) -> None:
    """`syncBatchNorm` does something: without it two workers do not learn what one process learns."""
    alone, together = ranks(1)[0], ranks(2)[0]

    assert np.abs(alone["statistics/weights"] - together["statistics/weights"]).max() > 5e-4


@pytest.mark.slow
def test_a_worker_without_images_counts_nothing_in_statistics_over_all(ranks: Ranks) -> None:
    """The last batch has two images for three workers. Were the third's counted, one image would count twice."""
    case = "statistics over all, short last batch"
    alone = ranks(1)[0][f"{case}/moving"]

    assert [1, 1, 0] == [int(rank[f"{case}/sums"][-1][2]) for rank in ranks(3)]
    for rank in ranks(3):
        assert np.abs(alone - rank[f"{case}/moving"]).max() < 5e-6


@pytest.mark.parametrize("world", [2, THREE])
def test_a_worker_without_images_does_not_move_its_own_averages(ranks: Ranks, world: int) -> None:
    """The worker that has the last image moves its own; the others' are as after the step before."""
    moved = [
        np.abs(np.diff(rank["statistics, short last batch/moving"], axis=0)).max(axis=1) > 0 for rank in ranks(world)
    ]

    assert [[True, True]] + [[True, False]] * (world - 1) == [steps.tolist() for steps in moved]


@pytest.mark.parametrize("world", [1, 2])
def test_every_process_has_tf_keras_and_iterates_no_data_set_with_an_autotuner(ranks: Ranks, world: int) -> None:
    """Rule 5, and the trap of pinned threads: a tf.data pipeline whose autotuner backs off makes a baseline up to twice
    as slow."""
    found = ranks(world)[0]

    assert {str(one["even/keras"]).partition(".")[0] for one in ranks(world)} == {"tf_keras"}
    assert {"False"} >= {enabled for case in CASES for enabled in found[f"{case}/iterated"].tolist()}
