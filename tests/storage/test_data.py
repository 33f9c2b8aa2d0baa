"""Data in S3: it is read by whoever may, and a stack whose data is not there is refused. A real server answers."""

import os
import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest

from infra.programs import ProgramError
from infra.settings.storage import Storage
from infra.storage import ask
from tests.storage.cloud import PREFIX, Cloud, put_folder
from tests.training import images
from tests.unit.training.test_cifar_pickle import Calling
from training.launch.storage import run_storage as kept
from training.workloads.cnn import dataset, imagefolder, sources
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.shapes import Share

DATA = "s3://runs/data"
"""Beside what runs keep."""


@pytest.fixture
def owner(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> kept.Storage:
    """The data's folder, as one who may do everything has it; this process is that one."""
    for name, value in cloud.variables(cloud.owner).items():
        monkeypatch.setenv(name, value)
    return kept.Storage.at(DATA)


@pytest.mark.usefixtures("owner")
def test_images_by_class_come_from_a_bucket_as_from_a_folder(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of them for each worker, and the same hash; what stands for decoding is of the file's bytes."""
    monkeypatch.setattr(imagefolder, "_decoded", lambda content, _: np.uint8(zlib.crc32(content) % 256))
    made = images.make(tmp_path, train=10, test=2)
    put_folder(cloud, made, "data/images")
    recipe = CnnRecipe(dataset="imagefolder", global_batch_size=8)

    for rank in range(2):
        share = Share(rank, 2, 8)
        here, there = (dataset.load(recipe, address, share) for address in (str(made), f"{DATA}/images"))

        assert here.sha256 == there.sha256
        assert (here.known.images == there.known.images).all()
        assert (here.test.labels == there.test.labels).all()


def test_cifar10_comes_from_a_bucket(
    cloud: Cloud, owner: kept.Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a folder; a file that lacks is named."""
    monkeypatch.setattr(sources, "CIFAR10_BATCH", 20)
    random = np.random.default_rng(1)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        batch = {b"data": random.integers(0, 256, (20, 3072)).astype(np.uint8), b"labels": [1] * 20}
        (tmp_path / name).write_bytes(pickle.dumps(batch))
    put_folder(cloud, tmp_path, "data/cifar")

    here, there = sources.load_cifar10(str(tmp_path)), sources.load_cifar10(f"{DATA}/cifar")
    assert (here.train_images == there.train_images).all()
    owner.remove("cifar/data_batch_3")
    with pytest.raises(sources.DatasetError, match=r"s3://runs/data/cifar/data_batch_3 is missing"):
        sources.load_cifar10(f"{DATA}/cifar")


def test_data_in_a_bucket_runs_no_code(owner: kept.Storage, tmp_path: Path) -> None:
    """Who may write there is not who trains: a file that names a function is refused, and the function not called."""
    ran = tmp_path / "ran"
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(Calling(os.mkdir, str(ran))))
    owner.put(tmp_path / "data_batch_1", "evil/data_batch_1")

    with pytest.raises(sources.DatasetError, match=r"s3://runs/data/evil/data_batch_1 .*posix\.mkdir"):
        sources.load_cifar10(f"{DATA}/evil")

    assert not ran.exists()


def test_data_that_is_not_there_is_refused_before_anything_is_made(
    owner: kept.Storage, cloud: Cloud, tmp_path: Path
) -> None:
    """With the key that says where it is; and what is there is found."""
    storage = Storage(address=PREFIX, endpoint=cloud.url, credentials=cloud.owner)
    (tmp_path / "part.jpg").write_bytes(b"x")
    owner.put(tmp_path / "part.jpg", "there/train/red/part.jpg")

    assert "" == ask(storage, 1.0, f"{DATA}/there")
    for address in (f"{DATA}/nowhere", "s3://nowhere/images"):
        with pytest.raises(ProgramError, match=f"datasetPath = {address}"):
            ask(storage, 1.0, address)
