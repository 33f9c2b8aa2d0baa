"""Data sets: what is loaded, how it is divided, and what is said of a damaged one. No TensorFlow."""

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.workloads.cnn import dataset, registry, sources
from training.workloads.cnn.dataset import Data
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.shapes import Share, Source


def loaded(name: str, images: int = 0) -> Data:
    """A data set that is built in, as one process alone has it."""
    return dataset.load(CnnRecipe(dataset=name, train_images=images), "", Share())


@pytest.fixture
def small_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cifar-10-batches-py folder of 20 images a file."""
    monkeypatch.setattr(sources, "CIFAR10_BATCH", 20)
    random = np.random.default_rng(1)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        batch = {
            b"data": random.integers(0, 256, (20, 3072)).astype(np.uint8),
            b"labels": (np.arange(20) % 10).tolist(),
        }
        (tmp_path / name).write_bytes(pickle.dumps(batch))
    return tmp_path


def test_digits_are_what_scikit_learn_gives() -> None:
    """Each array as made from `sklearn.datasets.load_digits()` of 1.9.1, and so the hash of them in every result: 1,797
    images, every fifth for testing, a tenth of the others for validation."""
    images, data = sources.load_digits(), loaded("digits")
    arrays = images.train_images, images.train_labels, images.test_images, images.test_labels

    assert [
        "e1cc07e87ef71fbad1541e2ef848abaad755c266bab894d07c500a62ac624ec9",
        "d390dd565d86ac5c9b81fe3a04f422658c924e98ee81b0ba4d18a12bae5136d3",
        "29de99475955e80c2d7493d590ca3b490630749e66a1e5dfbb7c17b45ef32dd3",
        "bebe12cb93ab12d98fb29fcb3ea22dfc666b4aeeca005cede0467a5db5faddcf",
    ] == [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]
    assert "ac6d32f04bbc6f4410b27f2572bac2f21820053ceb2096723cd2703e7815b06e" == data.sha256
    assert (360, 1294, 143) == (len(data.test.labels), len(data.train_rows), len(data.own_validation))
    assert set(range(10)) == set(data.known.labels.tolist())


@pytest.mark.parametrize("images", [0, 500])
def test_training_and_validation_share_no_image_and_cover_the_rest(images: int) -> None:
    """No image both trains and validates, whatever `trainImages` is."""
    data = loaded("digits", images)

    rows = [*data.train_rows.tolist(), *data.own_validation.tolist()]

    assert list(range(images or 1437)) == sorted(rows)


def test_every_epoch_visits_every_image_once_in_its_own_order() -> None:
    """The union of an epoch's batches is the training set. Repeats differ in what they learn from, by their seed, and
    not in what they are judged by."""
    data, again = loaded("digits"), loaded("digits")

    orders = [data.epoch_order(1, 1).tolist(), data.epoch_order(1, 2).tolist(), again.epoch_order(2, 1).tolist()]

    assert [data.train_rows.tolist()] * 3 == [sorted(order) for order in orders]
    assert 3 == len(set(map(tuple, orders)))
    assert data.own_validation.tolist() == again.own_validation.tolist()


def test_cifar10_is_read_from_its_folder(small_cifar10: Path) -> None:
    """Planes of red, green and blue become pixels."""
    images = sources.load_cifar10(str(small_cifar10))
    raw = pickle.loads((small_cifar10 / "data_batch_2").read_bytes())

    assert (100, 20) == (len(images.train_images), len(images.test_images))
    assert raw[b"data"][3].reshape(3, 32, 32)[:, 5, 7].tolist() == images.train_images[23, 5, 7].tolist()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "is damaged"),
        (lambda path: path.write_bytes(pickle.dumps({b"data": [], b"labels": []})), "holds 0 images"),
        (lambda path: path.write_bytes(pickle.dumps({b"labels": []})), "is damaged"),
    ],
)
def test_a_damaged_cifar10_says_what_is_wrong_with_which_file(small_cifar10: Path, damage: Any, said: str) -> None:
    """Not a traceback an hour later."""
    damage(small_cifar10 / "data_batch_3")

    with pytest.raises(sources.DatasetError, match=f"data_batch_3 {said}"):
        sources.load_cifar10(str(small_cifar10))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"train_images": np.zeros((4, 16, 16, 3), np.uint8)}, r"shape \(4, 16, 16, 3\)"),
        ({"train_images": np.zeros((4, 32, 32, 3), np.float32)}, "float32; they should be uint8"),
        ({"train_labels": np.zeros(3, np.int32)}, r"labels of shape \(3,\) for 4 images"),
        ({"train_labels": np.array([0, 1, 2, 10], np.int32)}, "labels from 0 to 10"),
        ({"train_labels": np.array([0, -1, 2, 3], np.int32)}, "labels from -1 to 3"),
        ({"test_images": np.zeros((0, 32, 32, 3), np.uint8), "test_labels": np.zeros(0, np.int32)}, "it is empty"),
    ],
)
def test_images_that_are_not_what_training_expects_are_refused(change: dict[str, Any], said: str) -> None:
    """Shape, type, counts and label range are checked for every data set, a newcomer's own too."""
    pixels, labels = np.zeros((4, 32, 32, 3), np.uint8), np.arange(4, dtype=np.int32)
    good = sources.Images(pixels, labels, pixels, labels, tuple("abcdefghij"))
    dataset.check(good, "mine")

    with pytest.raises(sources.DatasetError, match=said):
        dataset.check(replace(good, **change), "mine")


def test_synthetic_has_as_many_images_as_asked_for() -> None:
    """And the default without."""
    for source, images in ((Source(train_images=300), 300), (Source(), registry.SYNTHETIC_IMAGES)):
        made = registry.DATASETS["synthetic"].load(source)
        assert isinstance(made, sources.Images)
        assert images == len(made.train_images)


def test_the_hash_is_of_the_data_and_not_of_how_much_is_used() -> None:
    """The same data set gives the same hash; another one another."""
    whole = loaded("digits").sha256

    assert whole == loaded("digits", 200).sha256
    assert whole != loaded("synthetic", 200).sha256
