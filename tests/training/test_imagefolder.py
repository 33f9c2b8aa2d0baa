"""Images by class: what is read of a folder, which worker reads what, and what is said of one that is not right."""

import multiprocessing
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.golden import Wording
from tests.leftovers import share as share_process
from tests.limits import LONGEST_SECONDS
from tests.training import images
from tests.training.looked_at import ENVIRONMENT, PROJECT, command
from training.contract import result
from training.contract.provenance import allowed_cpus
from training.contract.recipe import batch_split
from training.launch.storage.run_storage import Storage
from training.workloads.cnn import dataset, imagefolder
from training.workloads.cnn.dataset import Data
from training.workloads.cnn.detail import detail_of
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.shapes import Share
from training.workloads.cnn.sources import DatasetError

needs_two_cpus = pytest.mark.skipif(len(allowed_cpus()) < 2, reason="two workers need two CPUs")
BATCH = 7
"""Divides neither by the workers, nor the images by it."""
ALONE = Share(batch=BATCH)


Loads = Callable[..., Data]


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loads]:
    """Loads a folder as one process has it: in a process of its own, as TensorFlow decodes, and would stay."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        share_process(pool.submit(os.getpid).result())
        yield lambda folder, share=ALONE, **more: pool.submit(_load, folder, share, **more).result()


def _load(folder: Path, share: Share, **more: int) -> Data:
    recipe = CnnRecipe(dataset="imagefolder", global_batch_size=share.batch, **more)  # type: ignore[arg-type]
    return dataset.load(recipe, str(folder), share)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 images train and validate, 15 test."""
    return images.make(tmp_path_factory.mktemp("images"))


def colour_of(data: Data, pixels: np.ndarray) -> list[str]:
    """The class of images (n, side, side, 3), by what is seen in them."""
    means = pixels.reshape(len(pixels), -1, 3).mean(axis=1)
    known = np.array([images.COLOURS[name] for name in data.class_names])
    return [data.class_names[row] for row in np.abs(means[:, None] - known[None]).sum(axis=2).argmin(axis=1)]


def test_every_image_has_its_class_and_the_size_asked_for(loaded: Loads, folder: Path) -> None:
    """JPEG and PNG alike, resized by the shorter side, the middle of it."""
    data = loaded(folder, image_size=48)

    assert ("blue", "green", "red") == data.class_names
    assert (60, 48, 48, 3) == data.known.images.shape
    assert (54, 6, 15) == (len(data.train_rows), data.validation_images, data.test_images)
    for part in (data.known, data.test):
        assert [data.class_names[label] for label in part.labels] == colour_of(data, part.images)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_workers_read_every_image_once_between_them(loaded: Loads, folder: Path, world: int) -> None:
    """Each its own part, and none but that."""
    parts = [loaded(folder, Share(rank, world, BATCH)) for rank in range(world)]

    known = np.concatenate([part.known.images for part in parts])
    tested = np.concatenate([part.test.images for part in parts])
    whole = loaded(folder)

    assert _sorted(whole.known.images) == _sorted(known)
    assert _sorted(whole.test.images) == _sorted(tested)
    assert sum(len(part.own_validation) for part in parts) == parts[0].validation_images
    assert 1 == len({part.sha256 for part in parts})


@pytest.mark.parametrize("world", [2, 3])
def test_each_step_of_an_epoch_has_for_each_worker_what_it_has_read(loaded: Loads, folder: Path, world: int) -> None:
    """By `batch_split`: whatever the batch, and the last one, too; all processes agree on the order."""
    parts = [loaded(folder, Share(rank, world, BATCH)) for rank in range(world)]

    first, second = (parts[0].epoch_order(1, epoch) for epoch in (1, 2))

    assert first.tolist() == parts[-1].epoch_order(1, 1).tolist()
    assert list(range(54)) == sorted(first.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()
    for order in (first, second):
        for start in range(0, 54, BATCH):
            step = order[start : start + BATCH]
            ends = np.cumsum(batch_split(len(step), world))
            for part, own in zip(parts, np.split(step, ends[:-1]), strict=True):
                local = own - part.first
                assert ((local >= 0) & (local < len(part.known.images) - len(part.own_validation))).all()


def test_fewer_images_are_read_where_fewer_are_wanted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trainImages` is what is read, and not what is thrown away."""
    read: list[str] = []
    original = Storage.read

    def noted(self: Storage, name: str) -> bytes:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(Storage, "read", noted)
    monkeypatch.setattr(imagefolder, "_decoded", lambda _, side: np.zeros((side, side, 3), np.uint8))
    data = _load(folder, ALONE, train_images=20)

    assert (18, 2) == (len(data.train_rows), data.validation_images)
    assert 4 == data.test_images
    assert 20 + 4 == len(read) == len(set(read))


def test_another_size_and_another_file_are_another_data_set(loaded: Loads, folder: Path, tmp_path: Path) -> None:
    """And the order in which they were made is none."""
    again = images.make(tmp_path / "again")
    assert loaded(folder).sha256 == loaded(again).sha256
    assert loaded(folder).sha256 != loaded(folder, image_size=48).sha256
    (again / "train" / "red" / "0.jpg").unlink()
    assert loaded(folder).sha256 != loaded(again).sha256


def test_hidden_files_are_none_of_it_and_test_may_be_called_so(loaded: Loads, tmp_path: Path) -> None:
    """As desktops leave them."""
    made = images.make(tmp_path, test_folder="test")
    (made / "train" / "red" / ".DS_Store").write_bytes(b"nothing")
    (made / "README.md").write_text("not in a part")

    assert 15 == loaded(made).test_images


def _broken(folder: Path) -> None:
    (folder / "train" / "red" / "3.jpg").write_bytes(b"\xff\xd8\xff this is no picture")


def _text(folder: Path) -> None:
    (folder / "train" / "red" / "labels.txt").write_text("1 2 3")


def _alone(folder: Path) -> None:
    (folder / "train" / "white").mkdir()
    (folder / "train" / "red" / "3.jpg").rename(folder / "train" / "white" / "3.jpg")


def _no_test(folder: Path) -> None:
    (folder / "val").rename(folder / "elsewhere")


@pytest.mark.parametrize(
    ("damage", "name"),
    [(_broken, "train/red/3.jpg"), (_text, "train/red/labels.txt"), (_alone, "white"), (_no_test, "val/CLASS/*.jpg")],
    ids=["no picture", "another file", "a class without a test", "no test"],
)
def test_what_is_wrong_with_a_folder_is_named(
    loaded: Loads, damage: Callable[[Path], None], name: str, tmp_path: Path, wording: Wording
) -> None:
    """Before a step is trained."""
    damage(images.make(tmp_path))

    with pytest.raises(DatasetError) as refused:
        loaded(tmp_path)

    assert name in str(refused.value)
    wording("imagefolder", re.sub(r" \(.+\);", " (TensorFlow's reason);", str(refused.value)))


@pytest.mark.parametrize(("limit", "world", "allowed"), [(None, 1, 16), (None, 2, 8), (100_000, 2, 16)])
def test_images_that_would_not_fit_into_memory_are_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None, world: int, allowed: int, *, wording: Wording
) -> None:
    """Linux would end the process without a word; without limits of their own the workers share what there is."""
    monkeypatch.setattr(imagefolder, "memory_available", lambda: 100_000)
    monkeypatch.setattr(imagefolder, "memory_limit", lambda: limit)

    with pytest.raises(DatasetError) as refused:
        _load(folder, Share(0, world, BATCH))

    assert [allowed] == [int(number) for number in re.findall(r"about (\d+)", str(refused.value))]
    wording("imagefolder", str(refused.value))


def test_what_storage_does_not_give_is_no_damaged_image(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Nobody should delete an image for it; and no more is asked for then than was under way."""
    asked: list[str] = []

    def refused(_: Storage, name: str) -> bytes:
        asked.append(name)
        time.sleep(0.2)
        raise OSError("SLOW_DOWN")

    monkeypatch.setattr(Storage, "read", refused)
    with pytest.raises(DatasetError) as raised:
        _load(folder, ALONE)

    assert len(asked) < 75
    name = next(name for name in asked if name in str(raised.value))  # two are read at a time
    wording("imagefolder", str(raised.value).replace(str(folder / name), "FOLDER/train/CLASS/NAME"))


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        ({"global_batch_size": 64}, "globalBatchSize 54"),
        ({"train_images": 61}, "trainImages 60"),
        ({"warmup_steps": 24}, "warmupSteps 23"),
    ],
)
def test_settings_that_do_not_fit_the_files_are_refused(
    folder: Path, more: dict[str, int], fix: str, wording: Wording
) -> None:
    """As settings are of a data set whose size they know; before an image is read."""
    given = {"global_batch_size": BATCH, "epochs": 3, **more}
    recipe = CnnRecipe(dataset="imagefolder", **given)  # type: ignore[arg-type]

    with pytest.raises(DatasetError) as refused:
        dataset.load(recipe, str(folder), Share(0, 1, recipe.global_batch_size))

    assert f"pulumi config set {fix}" in str(refused.value)
    wording("imagefolder", str(refused.value))


@needs_two_cpus
@pytest.mark.slow
def test_two_workers_train_on_every_image_together(folder: Path, tmp_path: Path) -> None:
    """For real: the last step of an epoch leaves one of them without an image, and no image is trained twice."""
    flags = ["--workload=cnn", "--dataset=imagefolder", f"--dataset-path={folder}", "--global-batch-size=53"]
    more = ["--epochs=2", "--warmup-steps=0", "--model=cnn-half", "--workers=2", "--no-bind-cpus"]

    done = subprocess.run(
        command("native", tmp_path, [*flags, *more]), cwd=PROJECT, env=ENVIRONMENT, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert 0 == done.returncode, done.stderr[-3000:]
    found = result.read(tmp_path / "result.json")
    assert detail_of(found).history[-1].loss < detail_of(found).history[0].loss
    assert (54, 6, 15) == tuple(found.work[name] for name in ("trainImages", "validationImages", "testImages"))
    assert found.checks["shardsCoverDataSet"]


def _sorted(pixels: np.ndarray) -> list[bytes]:
    return sorted(image.tobytes() for image in pixels)
