"""RLlib, for real: every arm alike, with a simulator beside each runner. TRY_RLLIB_PYTHON names an environment."""

import subprocess
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.script.tryout import EXAMPLES, NO_RLLIB, measure_one, try_script
from tests.stacks import RLLIB
from training.workloads.script.recognise import WORDS
from training.workloads.script.summary import OF_RUNNERS

pytestmark = pytest.mark.skipif(not RLLIB, reason=NO_RLLIB)
ARGUMENTS = "--num-workers {workers} --seed {seed} --steps 8000"


def test_every_arm_samples_the_same_number_of_steps(wording: Wording) -> None:
    """By its own process, or by two runners; that Ray runs in every arm is said; of all that, nothing is left."""
    tried = try_script(EXAMPLES / "reinforcement.py", ARGUMENTS, python=RLLIB, steps="8")

    assert 0 == tried.code, tried.text
    assert WORDS["ray-rllib"] == tried.kind
    assert ["native"] == list(tried.absent)
    wording("try", tried.absent["native"], "absent")
    assert [("1", "8"), ("1", "8"), ("2", "8")] == [
        (row["ranks"], row["steps"]) for row in map(tried.row, ("baseline", "wide", "ray"))
    ]
    assert {"1000 (counted)"} == {tried.row(arm)["rows a step"] for arm in ("baseline", "wide", "ray")}
    assert "episode_return_mean" in tried.text
    assert "C" == tried.claim
    wording("try", tried.conclusions)
    assert (
        str(EXAMPLES / "simulators/pole.py")
        not in subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    )


def test_a_run_has_the_return_and_its_time(tmp_path: Path) -> None:
    """What the claim of the same result is made of; figures of the runners, which nobody saw, are absent with why."""
    found = measure_one(
        EXAMPLES / "reinforcement.py", "ray", tmp_path, f"--script-arguments={ARGUMENTS} --until 20", python=RLLIB
    )

    assert found.reported["episode_return_mean"][-1].value >= 20
    assert found.ray_ran
    assert 2 == found.world_size
    assert "ray-rllib" == found.detail.kind
    assert found.workers[0].mean_cpus is None
    assert OF_RUNNERS in found.reasons["meanCpus"]
