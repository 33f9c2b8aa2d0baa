"""A checkpoint is whole or it is none: what was cut off, broken or deleted is never gone on from."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.contract.provenance import PROJECT
from training.launch.storage.checkpoint_store import FOLDER, MANIFEST, InStorage, manifests, seal, whole
from training.launch.storage.run_storage import Storage

WRITES_FOR_EVER = """
import os, sys, tempfile
from pathlib import Path
from training.launch.storage.checkpoint_store import InStorage, seal
from training.launch.storage.run_storage import Storage

kept = InStorage(Storage.at(sys.argv[1]), 2)
for _ in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        print("killed", flush=True)
        continue
    print(os.getpid(), flush=True)
    for epoch in range(1, 10_000):
        with tempfile.TemporaryDirectory() as name:
            for part in ("weights.npz", "optimizer.npz"):
                Path(name, part).write_bytes(bytes([epoch % 256]) * 4_000_000)
            seal(Path(name), epoch, -epoch)
            kept.keep(Path(name), {"epoch": epoch})
        print(epoch, flush=True)
"""
"""For each line that it reads, a process that writes checkpoints: it says its number, and each epoch that is kept."""


def keep(folder: Path, kept: InStorage, epoch: int, score: float = 0.0, size: int = 10) -> None:
    """A checkpoint of one file of so many bytes, made in `folder`."""
    made = folder / f"made-{epoch}"
    made.mkdir()
    (made / "weights.npz").write_bytes(bytes([epoch]) * size)
    seal(made, epoch, score)
    kept.keep(made, {"epoch": epoch})


def newest(kept: InStorage) -> int | None:
    """The epoch that training would go on after."""
    with kept.newest() as folder:
        manifest = whole(folder) if folder else None
    return manifest.epoch if manifest else None


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Of a run."""
    return Storage.at(str(tmp_path / "kept"))


@pytest.fixture
def kept(storage: Storage) -> InStorage:
    """With room for two."""
    return InStorage(storage, 2)


def file_of(storage: Storage, epoch: int, name: str = "weights.npz") -> Path:
    """In a checkpoint."""
    return Path(storage.folder, FOLDER, f"epoch-{epoch:05}", name)


def test_the_newest_is_gone_on_from(kept: InStorage, tmp_path: Path) -> None:
    """Whichever is the best; and with none training begins at its beginning."""
    assert newest(kept) is None
    for epoch, score in ((1, 0.5), (2, 0.7)):
        keep(tmp_path, kept, epoch, score)

    assert 2 == newest(kept)


def test_the_best_stay_and_the_newest(kept: InStorage, storage: Storage, tmp_path: Path) -> None:
    """Of epochs 1 to 5 the two of the lowest loss; NaN is no good one."""
    for epoch, score in ((1, 0.5), (2, float("nan")), (3, 0.3), (4, 0.6), (5, 0.9)):
        keep(tmp_path, kept, epoch, score)

    assert {1, 3, 5} == {manifest.epoch for manifest in manifests(storage).values()}
    assert not file_of(storage, 4).parent.exists()


def test_storage_is_asked_once_what_is_there(
    kept: InStorage, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the training, which may go on from what another process left: no checkpoint waits for that."""
    for epoch, score in ((1, 0.2), (2, 0.4), (3, 0.3)):
        keep(tmp_path, kept, epoch, score)
    goes_on = InStorage(storage, 2)
    assert 3 == newest(goes_on)
    with monkeypatch.context() as asked:
        for question in ("names", "fetch"):
            asked.delattr(Storage, question)
        for epoch, score in ((4, 0.5), (5, 0.1)):
            keep(tmp_path, goes_on, epoch, score)

    assert {1, 5} == {manifest.epoch for manifest in manifests(storage).values()}


def test_of_equal_ones_the_later_stay(kept: InStorage, storage: Storage, tmp_path: Path) -> None:
    """As with Ray Train, which the arms are compared with."""
    for epoch in (1, 2, 3):
        keep(tmp_path, kept, epoch, 0.5)

    assert {2, 3} == {manifest.epoch for manifest in manifests(storage).values()}


def test_a_checkpoint_without_its_manifest_is_none(kept: InStorage, storage: Storage, tmp_path: Path) -> None:
    """As a process leaves it that is killed before the last file."""
    for epoch in (1, 2):
        keep(tmp_path, kept, epoch)
    file_of(storage, 2, MANIFEST).unlink()

    assert 1 == newest(kept)


def test_a_broken_newest_falls_back_to_the_one_before(kept: InStorage, storage: Storage, tmp_path: Path) -> None:
    """By the SHA-256 of each file, however it is broken: emptied, changed, or removed by hand to make room."""
    for epoch in (1, 2):
        keep(tmp_path, kept, epoch)
    for damage in (b"", b"other", None):
        file_of(storage, 2).write_bytes(damage) if damage is not None else file_of(storage, 2).unlink()
        assert 1 == newest(kept), damage

    file_of(storage, 1, MANIFEST).write_text("{")
    assert newest(kept) is None


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may mount a small file system")
def test_a_full_disk_is_its_reason_and_leaves_what_was_whole(tmp_path: Path) -> None:
    """A file system of a mebibyte, and checkpoints of 400 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine mounts nothing: {mounted.stderr.decode().strip()}")
    try:
        kept = InStorage(Storage.at(str(disk)), 5)
        for epoch in (1, 2):
            keep(tmp_path, kept, epoch, size=400_000)
        with pytest.raises(OSError) as refused:  # noqa: PT011 - its number is looked at
            keep(tmp_path, kept, 3, size=400_000)
        assert refused.value.errno == errno.ENOSPC

        assert 2 == newest(kept)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_process_killed_while_it_writes_leaves_a_whole_one(kept: InStorage, storage: Storage, tmp_path: Path) -> None:
    """By SIGKILL, at ten moments; the next process goes on after the newest that it finished, or finds none."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_EVER, storage.folder], cwd=PROJECT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as forks:  # fmt: skip
        assert forks.stdin
        assert forks.stdout
        for moment in range(10):
            print(file=forks.stdin, flush=True)
            writing, done = (int(forks.stdout.readline()) for _ in range(2))
            time.sleep(0.003 * moment)
            os.kill(writing, signal.SIGKILL)
            done = max([done, *(int(line) for line in iter(forks.stdout.readline, "killed\n"))])

            found = newest(kept)

            assert found is not None
            assert found >= done
