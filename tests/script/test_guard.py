"""Every hook of the observer fails in a real script, which goes on as it does alone. TRY_PYTHON names PyTorch's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.script.tryout import NO_TORCH
from tests.stacks import TORCH
from training.workloads.script import observation_files, observations
from training.workloads.script.environment import SITE
from training.workloads.script.observe import guard, hooks  # noqa: F401 (importing the second fills the first)

HERE = Path(__file__).parent / "guarded"
WHEN = ("before", "after")
WRITES = "state._write"
"""The hook without which there is no observation, as where no step is seen: the log says so."""
LOADED = "torch,torch.distributed,torch._dynamo"
"""What a script of PyTorch imports; the last at its first DistributedDataParallel, in 1.7 s of each run."""
ELSEWHERE = {
    "state._say", "state.State._ask", "torch_loaders._reset", "torch_steps._make", "torch_weights._keep",
}  # fmt: skip
"""Hooks that no script here reaches: with nothing to say, no search, one process for a loader, no GradScaler,
and two optimizers."""


@dataclass(frozen=True)
class Ran:
    """A run of a script in a folder of its own."""

    folder: Path
    code: int

    @property
    def printed(self) -> tuple[int, str, str]:
        """What the script shows of itself."""
        return self.code, (self.folder / "stdout").read_text(), (self.folder / "stderr").read_text()

    @property
    def seen(self) -> list[observations.Observation]:
        """What the observer wrote."""
        return observation_files.read(self.folder)


def run(
    python: str, modules: str, script: str, folder: Path, planted: Sequence[tuple[str, str]], **variables: str
) -> Iterator[Ran]:
    """Runs of a script alone, observed, and observed with a failure of each hook that is named."""
    faults = [("", ""), ("", ""), *planted]
    folders = [folder / str(number) for number in range(len(faults))]
    jobs = []
    for own, (hook, when) in zip(folders, faults, strict=True):
        own.mkdir()
        jobs.append({"command": [str(HERE / script)], "folder": str(own), "hook": hook, "when": when})
    around = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    around |= {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""} | variables
    observed = {"PYTHONPATH": str(SITE), "TRAINING_OBSERVE": str(folder)}
    codes = []
    for some, environment in ((jobs[:1], around), (jobs[1:], around | observed)):
        done = subprocess.run(
            [python, str(HERE / "forks.py"), modules],
            input=json.dumps(some), env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
        codes += json.loads(done.stdout.splitlines()[-1])
    return (Ran(own, code) for own, code in zip(folders, codes, strict=True))


def hooks_of(*modules: str) -> list[str]:
    """The names of the hooks that run within a script's calls, in order."""
    return [
        name
        for name in sorted(guard.hooks)
        if name.partition(".")[0] in modules and not name.partition(".")[2].startswith(("observe_", "join_"))
    ]


def check(runs: Iterator[Ran], planted: Sequence[tuple[str, str]]) -> set[str]:
    """Hold that each run is as the script alone, and says what is unknown; give the hooks that failed."""
    alone, observed, *failed = runs
    assert alone.printed == observed.printed
    assert [()] == [rank.notes for rank in observed.seen]
    reached = set()
    for (name, when), ran in zip(planted, failed, strict=True):
        if not (ran.folder / "failed").exists():
            continue
        reached.add(name)
        code, out, errors = ran.printed
        assert alone.printed[:2] == (code, out), (name, when)
        if name == WRITES or not ran.seen:
            assert name == WRITES or "steps" in guard.hooks[name].items, (name, when)
            assert errors.startswith(alone.printed[2])
            assert "planted" in errors
            continue
        assert alone.printed[2] == errors, (name, when)
        (rank,) = ran.seen
        assert "planted" in str(rank.notes), (name, when)
        assert {*guard.hooks[name].items} <= rank.lost.keys(), (name, when)
    return reached


@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
def test_a_script_of_pytorch_goes_on(tmp_path: Path) -> None:
    """Its steps, loaders, modules, exchange, collectives and end; and what all frameworks have."""
    names = hooks_of(*(name for name in {hook.partition(".")[0] for hook in guard.hooks} if name.startswith("torch_")))
    names = [name for name in names if not name.startswith("torch_experiment.")] + hooks_of("state")
    planted = [(name, when) for name in names for when in WHEN]
    runs = run(TORCH, LOADED, "torch_train.py", tmp_path, planted)

    assert {*names} - ELSEWHERE == check(runs, planted)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "legacy"), [("keras", "0"), ("tf_keras", "1")])
def test_a_script_of_keras_goes_on(module: str, legacy: str, tmp_path: Path) -> None:
    """Its `fit`, epochs, steps of which it executes two together, and validations; several values are no number."""
    names = hooks_of("keras_steps")
    planted = [(name, when) for name in names for when in WHEN]
    modules = f"tensorflow,{module}"
    runs = run(sys.executable, modules, "keras_train.py", tmp_path, planted, TF_USE_LEGACY_KERAS=legacy)

    assert {*names} == check(runs, planted)
    (rank,) = observation_files.read(tmp_path / "1")
    assert ({"loss", "val_loss"}, {"f1_score", "val_f1_score"}) == ({*rank.metrics}, {*rank.no_numbers})
    assert (12, [3, 3, 3], 2) == (len(rank.step_ends), rank.pass_steps, rank.validations)
    assert (8, 3, 2, 2) == (rank.reported_rows, rank.epoch_steps, rank.executed_together, rank.work.rounds)
    assert 12 == len(rank.cpu_at_step)
    assert [*rank.step_ends] == sorted(rank.step_ends)


@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
def test_a_script_of_ray_train_goes_on(tmp_path: Path) -> None:
    """Its reports and checkpoints, in local mode, and LightGBM's rounds; numbers of numpy are numbers."""
    names = ["ray_train._report", "ray_train._keep", "ray_train._fit", "booster_rounds._train"]
    planted = [(name, when) for name in names for when in WHEN]
    modules = f"{LOADED},ray.train,ray.train.torch,lightgbm"
    runs = run(TORCH, modules, "ray_train_local.py", tmp_path, planted, RAY_USAGE_STATS_ENABLED="0")

    assert {*names} == check(runs, planted)
    (rank,) = observation_files.read(tmp_path / "1")
    assert [0.5, 1.0, 1.5] == [value for _, name, value in rank.metric_points if name == "loss"]
    assert "str" == rank.no_numbers["words"]
