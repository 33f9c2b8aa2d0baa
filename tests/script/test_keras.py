"""Keras scripts in every arm, for real: with TF_CONFIG, and with Ray Train's TensorflowTrainer."""

import re
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.script.tryout import EXAMPLES, measure_one, run_one, try_script
from training.contract.progress import describe, read_new
from training.workloads.script import facts
from training.workloads.script.recognise import WORDS


@pytest.mark.slow
def test_both_arms_with_two_ranks_do_the_same(tmp_path: Path) -> None:
    """Two ranks that joined each other, with the weights of each other; and Ray changes nothing of that."""
    arguments = "--epochs 1 --num-workers {workers} --storage {storage}"
    arms = {arm: run_one(EXAMPLES / "keras_ray.py", arm, tmp_path, arguments)[1] for arm in ("native", "ray")}

    for found in arms.values():
        assert "" == found.problem
        assert (2, 20) == (found.ranks, found.steps)
        assert found.weights_equal[0]
        assert ("reported", 64) == (found.rows_known, found.rows_per_step)
        assert (1,) == found.threads
    assert facts.ray_changed_nothing(arms)


@pytest.mark.slow
def test_the_whole_of_it(wording: Wording) -> None:
    """Commands, steps, what was seen, the claim and what would raise it, an estimate; with TF_CONFIG likewise."""
    tried = try_script(EXAMPLES / "keras_tf_config.py", "--epochs 1")

    assert 0 == tried.code, tried.text
    assert WORDS["tf-config"] == tried.kind
    rows = {arm: tried.row(arm) for arm in ("baseline", "wide", "native", "ray")}
    assert ["1", "1", "2", "2"] == [row["ranks"] for row in rows.values()]
    assert {("20", "64 (reported)")} == {(row["steps"], row["rows a step"]) for row in rows.values()}
    assert re.fullmatch("[0-9a-f]{12}", rows["native"]["weights"])
    assert rows["native"]["weights"] == rows["ray"]["weights"]
    assert "C" == tried.claim
    wording("try", tried.conclusions)
    assert "./rwi up --stack keras_tf_config" in tried.text


def test_a_run_tells_how_far_it_is_and_what_it_used(tmp_path: Path) -> None:
    """Epochs as `fit` was told, and CPUs and CPU time of each rank."""
    flags = ["--script-arguments=--epochs 2", "--measure-steps=40"]
    found = measure_one(EXAMPLES / "keras_tf_config.py", "native", tmp_path, *flags)
    told = [describe(event) for event in read_new(tmp_path / "progress.jsonl", 0)[0] if event["event"] == "steps"]

    assert told[-1].split("  ")[0].split(", ") == ["epoch 2/2", "step 8/32"]
    assert [(0, 2), (1, 2)] == [(rank.rank, rank.world) for rank in found.detail.ranks]
    assert all((worker.mean_cpus or 0) > 0 and worker.affinity for worker in found.workers)
    assert [1, 1] == [worker.compute_threads for worker in found.workers]
