"""RLlib's iterations, seen in a process of its own against a stand-in of its algorithm; the real one: tests/script."""

import re
from pathlib import Path
from typing import Any

import pytest

from cli.tryout import show
from tests.golden import Wording
from tests.unit.script.test_facts import arm, rank, unknown
from tests.unit.script.test_observe import run, with_torch, written
from training.workloads.script import same_work

RLLIB = {
    "ray/__init__.py": "",
    "ray/_private/__init__.py": "",
    "ray/_private/worker.py": (
        "import os\nfrom types import SimpleNamespace\nWORKER_MODE = 1\nis_initialized = lambda: True\n"
        "global_worker = SimpleNamespace(mode=int(os.environ.get('MODE', 0)))\n"
    ),
    "ray/rllib/__init__.py": "",
    "ray/rllib/algorithms/__init__.py": "",
    "ray/rllib/algorithms/algorithm.py": (
        "import ray._private.worker, torch\n"
        "class Runners:\n    num_healthy_remote_workers = lambda self: 2\n"
        "class Algorithm:\n    steps = 0\n    env_runner_group = Runners()\n"
        "    def step(self):\n        for _ in range(5): torch.optim.optimizer.Optimizer().step()\n"
        "        self.steps += 500\n"
        "        return {'num_env_steps_sampled_lifetime': self.steps,\n"
        "                'env_runners': {'episode_return_mean': self.steps / 10, 'num_module_steps_sampled': {}},\n"
        "                'evaluation': {'env_runners': {'episode_return_mean': 7.0}}}\n"
    ),
}
"""What the observer asks of Ray, and no more."""
SCRIPT = "from ray.rllib.algorithms.algorithm import Algorithm\na = Algorithm()\nfor _ in range(3): said = a.step()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the stand-ins."""
    return with_torch(tmp_path, RLLIB)


def test_an_iteration_is_a_step_and_an_optimizer_s_is_none(folder: Path) -> None:
    """Fifteen steps of optimizers in three iterations; rows are the environment's steps, as RLlib counts them."""
    done = run(folder, SCRIPT)
    (seen,) = written(folder)

    assert (0, "") == (done.returncode, done.stderr)
    assert (3, [500, 1000, 1500]) == (len(seen["stepEnds"]), seen["rowsAtStep"])
    assert ("rllib", 0, 2, 3) == (seen["framework"], seen["rank"], seen["world"], seen["threads"])
    assert seen["ray"]
    assert {"episode_return_mean": 150.0, "evaluation/episode_return_mean": 7.0} == seen["metrics"]


def test_it_ends_after_the_iterations_that_are_wanted(folder: Path) -> None:
    """The script's own loop by its end; one of Tune's by a result that says it is the last."""
    loop = SCRIPT.replace("range(3)", "range(9)") + "print(said.get('done'))"
    ended = run(folder, loop, TRAINING_OBSERVE_STEPS="2")
    (seen,) = written(folder)
    under_tune = run(folder, SCRIPT + "print(said.get('done'))", TRAINING_OBSERVE_STEPS="2", MODE="1")

    assert (0, "") == (ended.returncode, ended.stdout)
    assert (2, True) == (len(seen["stepEnds"]), seen["endedEarly"])
    assert "True\n" == under_tune.stdout


def test_who_only_learns_or_samples_is_no_rank(folder: Path) -> None:
    """A learner of its own process steps optimizers, and the algorithm's process speaks for it."""
    run(folder, "import ray.rllib.algorithms.algorithm, torch\ntorch.optim.optimizer.Optimizer().step()")

    assert [] == written(folder)


def test_runners_are_counted_by_the_process_that_has_them(wording: Wording) -> None:
    """One observation of as many runners as were asked for; too few are named, and so is Ray in the other arms."""
    more: dict[str, Any] = {"framework": "rllib", "ray": True, "markedPasses": None, "epochRows": None}
    alone = arm(rank(0, 1, batch=64, **more), name="baseline", expected=1)
    two = arm(rank(0, 2, batch=64, **more), name="ray")
    found = {"baseline": alone, "ray": two}

    assert ("", 2) == (two.problem, two.ranks)
    too_few = arm(rank(0, 1, **more), name="ray").problem
    assert {"1", "2"} <= set(re.findall(r"\d+", too_few))
    findings = "\n".join(show.findings(found, show.verdict(found, complete=True)))
    assert "baseline" in findings
    wording("try", too_few, "too few runners")
    wording("try", findings, "findings")
    assert "same script" == show.verdict(found, complete=True).claim
    assert {"steps"} == unknown(**found)
    each_a_batch = arm(rank(0, 2, batch=128, **more), name="ray")
    assert same_work.is_weak({"baseline": alone.work, "ray": each_a_batch.work})  # as ranks that do not divide theirs
