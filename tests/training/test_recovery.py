"""A training that was broken off goes on where it was, for real: bit for bit, with dropout and augmentation on."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.training.looked_at import ENVIRONMENT, PROJECT, command
from training.contract import result
from training.contract.provenance import allowed_cpus
from training.launch.storage.checkpoint_store import FOLDER, Manifest, manifests
from training.launch.storage.run_storage import Storage
from training.workloads.cnn.detail import WEIGHTS, detail_of

pytestmark = pytest.mark.slow
needs_two_cpus = pytest.mark.skipif(len(allowed_cpus()) < 2, reason="two workers need two CPUs")
SETTINGS = {"dataset": "synthetic", "trainImages": "230", "globalBatchSize": "50", "warmupSteps": "2", "epochs": "3"}
"""207 images train in five steps, the last of seven: ranks draw unlike many random numbers."""
FLAGS = [
    "--dataset=synthetic", "--train-images=230", "--global-batch-size=50", "--warmup-steps=2", "--epochs=3",
    "--augmentation=flip-crop", "--learning-rate-schedule=plateau", "--checkpoint-epochs=1",
]  # fmt: skip


def train(folder: Path, storage: Path) -> subprocess.CompletedProcess[str]:
    """One process, which does not wait for the machine: what is looked at is no time."""
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        command("baseline", folder, [*FLAGS, f"--storage={storage}", "--no-bind-cpus"]), cwd=PROJECT, env=ENVIRONMENT,
        capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip


def without_figures(said: str) -> str:
    """What is said of a killed run, with marks for what differs from run to run."""
    without_losses = re.sub(r"loss [\d., ]+$", "loss …", said, flags=re.MULTILINE)
    without_numbers = re.sub(r"\d+\.\d|(?<=lostSteps: )\d+|(?<=epoch )\d", "…", without_losses)
    return re.sub("SHA-256 [0-9a-f]+", "SHA-256 ", without_numbers)


def kept(storage: Path) -> dict[int, Manifest]:
    """Manifests of the checkpoints, by epoch."""
    return {manifest.epoch: manifest for manifest in manifests(Storage.at(str(storage))).values()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder and the storage of a run of three epochs."""
    folder, storage = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("kept")
    done = train(folder, storage)
    assert 0 == done.returncode, done.stderr[-3000:]
    return folder, storage


def test_what_a_run_kept_is_said_and_its_cost_is_in_no_step(undisturbed: tuple[Path, Path]) -> None:
    """Three checkpoints of the best validation loss, which here are all; the time that they took stands by itself."""
    folder, storage = undisturbed
    made = result.read(folder / result.NAME)

    assert {1, 2, 3} == set(kept(storage))
    assert made.seconds.checkpoint is not None
    assert 0 < made.seconds.checkpoint < made.seconds.wall
    assert made.retries is None
    assert (storage / "progress.jsonl").read_text() in (folder / "progress.jsonl").read_text()


def test_a_run_whose_newest_checkpoint_broke_goes_on_from_the_one_before(
    undisturbed: tuple[Path, Path], tmp_path: Path
) -> None:
    """And ends with the same weights, the same optimizer, and the history of all epochs; its curves are whole, too."""
    folder, storage = undisturbed
    shutil.copytree(storage, tmp_path / "kept")
    wanted = kept(storage)[3]
    shutil.rmtree(tmp_path / "kept" / FOLDER / "epoch-00003")
    (tmp_path / "kept" / FOLDER / "epoch-00002" / WEIGHTS).write_bytes(b"half")

    done = train(tmp_path / "again", tmp_path / "kept")

    assert 0 == done.returncode, done.stderr[-3000:]
    said = (tmp_path / "again" / "progress.jsonl").read_text()
    assert said.startswith((storage / "progress.jsonl").read_text())
    assert '"resume", "epoch": 1' in said
    found = kept(tmp_path / "kept")[3]
    assert {name: wanted.files[name] for name in (WEIGHTS, "optimizer.npz")} == {
        name: found.files[name] for name in (WEIGHTS, "optimizer.npz")
    }
    histories = [detail_of(result.read(run / result.NAME)).history for run in (folder, tmp_path / "again")]
    assert [epoch.loss for epoch in histories[0]] == [epoch.loss for epoch in histories[1]]


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may mount a small file system")
def test_a_full_disk_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    """As one line, and the checkpoint before it is whole: there is room for one of 10 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    try:
        done = train(tmp_path / "run", disk)
        found = kept(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)

    assert 1 == done.returncode
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert os.strerror(errno.ENOSPC) in said
    assert {1} == set(found)
    assert not (tmp_path / "run" / result.NAME).exists()


@needs_two_cpus
def test_a_training_of_which_something_is_killed_ends_with_the_weights_of_one_that_is_not(wording: Wording) -> None:
    """`rwi bench recovery`: a process, and Ray Train's retry; all of Ray, and the same job again. And what each cost.

    The kill may come late: all epochs but the last are left for it, and it does not matter which checkpoint is newest.
    """
    settings = {**SETTINGS, "augmentation": "flip-crop", "epochs": "6"}
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    done = subprocess.run(
        [sys.executable, "rwi", "bench", "recovery", "--of", "worker", "--of", "head", *given], cwd=PROJECT,
        env=os.environ | {"RWI_SETUP": "no"}, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stdout + done.stderr[-3000:]
    before, *of_victims = re.split("^(?=.* killed[:,] )", done.stdout, flags=re.MULTILINE)
    assert "undisturbed: " in before
    for victim, said in zip(("worker", "head"), of_victims, strict=True):
        figures = dict(line.split(": ", 1) for line in said.splitlines()[1:])  # after what was killed
        assert ["recoverySeconds", "lostSteps", "loss", "weights"] == list(figures)
        assert re.match(r"\d+\.\d,", figures["recoverySeconds"])
        assert re.match(r"\d+, .* [1-5]$", figures["lostSteps"])  # the epoch of the checkpoint
        assert figures["loss"].startswith("equal ")
        assert figures["weights"].startswith("equal ")
        wording("recovery", without_figures(said), victim)


def test_a_list_of_ray_train_s_that_a_kill_tore_keeps_no_job_from_beginning(tmp_path: Path) -> None:
    """Ray Train refuses it, and begins when it is gone; one that is whole stays."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.torn_list", str(tmp_path / "kept")], cwd=PROJECT, capture_output=True,
        text=True, timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr[-3000:]
    assert ["whole: stays", *2 * ["torn: refused", "then: began without"]] == done.stdout.splitlines()
