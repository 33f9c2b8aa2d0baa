"""A script in pods of an image without this project, with the processes of this machine.

The modules are unpacked by the pods' own command, and started as pods start them, in an empty folder.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.places.cluster.manifests import project_modules
from infra.places.cluster.manifests.pod_parts import PACKED, PACKED_MODULES, UNPACK, UNPACKED_START, UNPACKED_VARIABLES
from tests import ray_head
from tests.script.test_pods import ARGUMENTS, packed
from tests.script.tryout import NO_TORCH
from tests.stacks import TORCH
from training.contract.result import TrainingResult
from training.launch.environment import FILES, IN_OTHER_IMAGE, RESULTS
from training.launch.pod import log_result

STEPS = 12
has_torch = pytest.mark.skipif(
    subprocess.run([ray_head.PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0,
    reason="no PyTorch beside ray[default]: TRY_DASHBOARD_PYTHON names an environment with both",
)


class Pod:
    """Its files, and the Python of its image."""

    def __init__(self, folder: Path, python: str, example: str, arguments: str) -> None:
        self.folder, self._python, self.modules = folder, python, folder / "modules"
        self._arguments, self._example, self._files = arguments, example, packed(folder, example, arguments)
        (folder / PACKED_MODULES).write_bytes(project_modules.of_workload("script").content)
        (folder / "work").mkdir()
        unpack = UNPACK.replace(f"{PACKED}/", f"{folder}/").replace(f"'{IN_OTHER_IMAGE}'", f"'{self.modules}'")
        self._run("-P", "-c", unpack)

    def _run(self, *command: str, **variables: str) -> str:
        """With nothing of this process's environment."""
        path = f"{Path(self._python).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, **UNPACKED_VARIABLES, "HOME": str(self.folder), **variables}
        done = subprocess.run(
            [self._python, *command], cwd=self.folder / "work", env=own, capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def start(self, module: str, *arguments: str, **variables: str) -> str:
        """What a module of ours prints, started as in a pod."""
        start = [part.replace(IN_OTHER_IMAGE, str(self.modules)) for part in UNPACKED_START[1:]]
        told = {"TRAINING_NODE": "a-node", FILES: str(self._files), **variables}
        return self._run(*start, module, *arguments, **told)

    @property
    def flags(self) -> list[str]:
        """Of the run."""
        of_script = [f"--script={self._example}", f"--script-arguments={self._arguments}"]
        return ["--workload=script", *of_script, f"--measure-steps={STEPS}", "--workers=2"]

    def run(self, arm: str) -> TrainingResult:
        """An arm's result, by its log."""
        told = {RESULTS: str(self.folder / "results")}
        (self.folder / "results").mkdir(exist_ok=True)
        return log_result.find_result(self.start("training.launch.pod.run", arm, *self.flags, **told))

    def knows_nothing(self) -> bool:
        """Of this project, without the modules."""
        return "None" in self._run("-c", "import importlib.util; print(importlib.util.find_spec('training'))")


@pytest.mark.parametrize(
    ("python", "example", "arguments"),
    [
        pytest.param(sys.executable, "keras_ray.py", ARGUMENTS, id="keras", marks=pytest.mark.slow),
        pytest.param(
            TORCH, "torch_ddp.py", "--epochs 1", id="torch", marks=pytest.mark.skipif(not TORCH, reason=NO_TORCH)
        ),
    ],
)
def test_an_image_without_the_project_trains(python: str, example: str, arguments: str, tmp_path: Path) -> None:
    """One process, and one with all CPUs; the versions in the result are those that were found."""
    pod = Pod(tmp_path, python, example, arguments)
    assert pod.knows_nothing()

    baseline, wide = pod.run("baseline"), pod.run("wide")

    assert [STEPS, STEPS] == [found.detail.ranks[0].steps for found in (baseline, wide)]
    assert {"python", "ray"} <= baseline.workers[0].software.versions.keys()
    assert ["a-node"] == [worker.node for worker in baseline.workers]


@pytest.mark.slow
@ray_head.needed
@has_torch
def test_the_driver_of_a_ray_job_and_its_workers_find_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submitter sends the script alone: Ray's pods have the modules at the same place, and all are observed."""
    pod = Pod(tmp_path, ray_head.PYTHON, "torch_ddp.py", "--epochs 1")
    (tmp_path / "results").mkdir()
    monkeypatch.setenv("TRAINING_RESULTS", str(tmp_path / "results"))  # which a pod of Ray has at /results
    monkeypatch.setenv("TRAINING_NODE", "a-node")
    with ray_head.running(cpus=2) as head:
        address = (f"--address={head.url}", "--submission-id=ray-1", "--stack=mine", "--")
        log = pod.start("training.launch.ray.submit", *address, *pod.flags, RAY_AUTH_TOKEN=ray_head.TOKEN)

    found = log_result.find_result(log)
    assert ("ray", [0, 1]) == (found.arm, [worker.rank for worker in found.workers])
    assert {"weightsEqual": True, "stepsOfRanksEqual": True}.items() <= found.checks.items()
    assert [STEPS, STEPS] == [rank.steps for rank in found.detail.ranks]
