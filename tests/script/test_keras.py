"""Keras scripts in every arm, for real: with TF_CONFIG, and with Ray Train's TensorflowTrainer."""

from pathlib import Path

import pytest

from tests.script.tryout import EXAMPLES, run_one, try_script
from training.workloads.script import facts


@pytest.mark.parametrize("script", ["keras_tf_config.py", "keras_ray.py"])
def test_both_arms_with_two_ranks_do_the_same(script: str, tmp_path: Path) -> None:
    """Two ranks that joined each other, with the weights of each other; and Ray changes nothing of that."""
    arguments = "--epochs 1" + (" --num-workers {workers} --storage {storage}" if "ray" in script else "")
    arms = {arm: run_one(EXAMPLES / script, arm, tmp_path, arguments)[1] for arm in ("native", "ray")}

    for found in arms.values():
        assert "" == found.problem
        assert (2, 20) == (found.ranks, found.steps)
        assert found.weights_equal[0]
        assert ("reported", 64) == (found.rows_known, found.rows_per_step)
        assert (1,) == found.threads
    assert facts.together(arms).ray_changed_nothing


def test_the_whole_of_it(tmp_path: Path) -> None:
    """Commands, steps, what was seen, the claim and what would raise it, an estimate."""
    tried = try_script(EXAMPLES / "keras_tf_config.py", "--epochs 1", STEPS="8")

    assert 0 == tried.code, tried.text
    assert "keras_tf_config.py: TensorFlow with TF_CONFIG" in tried.text
    assert "claim that can be reached: C, same script" in tried.text
    assert "rows are not counted, but as the script says" in tried.text
    assert "a full measurement of 4 repeats" in tried.text
