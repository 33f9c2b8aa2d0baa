"""The images of the data sets that are built in: read, downloaded or made. It knows no recipe and no registry."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.launch.storage.run_storage import Storage
from training.workloads.cnn import cifar_pickle
from training.workloads.cnn.shapes import SIDE

DIGITS = Path(__file__).with_name("digits.csv.gz")
"""The file of the digits; digits-licence.txt names its origin and licence."""
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_BATCH = 10_000

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int32]


class DatasetError(ValueError):
    """A data set that is missing, damaged or not what it should be; the message says what to do."""


@dataclass(frozen=True)
class Images:
    """A data set as loaded: images (n, side, side, 3) uint8, labels (n,) int32."""

    train_images: Bytes
    train_labels: Labels
    test_images: Bytes
    test_labels: Labels
    class_names: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """What is known of a data set of files before its images are read; each process reads its own part."""

    train_files: tuple[str, ...]
    train_labels: Labels
    test_files: tuple[str, ...]
    test_labels: Labels
    class_names: tuple[str, ...]
    sha256: str
    """Hash of the names and sizes of all files, because no process reads all of them."""
    read: Callable[[Sequence[str], int], Bytes]
    """Function that returns the images (n, side, side, 3) of n files; its second argument is the number of processes.
    It raises DatasetError."""


def load_digits() -> Images:
    """Return the 1,797 digits in the file DIGITS, whose lines have 64 pixels from 0 to 16, then the label."""
    with gzip.open(DIGITS, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    small = np.minimum(table[:, :64].reshape(-1, 8, 8).astype(np.uint16) * 16, 255).astype(np.uint8)
    images = np.repeat(small.repeat(4, axis=1).repeat(4, axis=2)[..., None], 3, axis=3)
    labels = table[:, 64].astype(np.int32)
    testing = np.arange(len(labels)) % 5 == 0
    return Images(images[~testing], labels[~testing], images[testing], labels[testing], tuple("0123456789"))


def load_cifar10(path: str) -> Images:
    """Return CIFAR-10 from a folder cifar-10-batches-py, here or in storage, or from Keras' download without `path`."""
    folder = path or str(download_cifar10())
    train = np.empty((5 * CIFAR10_BATCH, SIDE, SIDE, 3), np.uint8), np.empty(5 * CIFAR10_BATCH, np.int32)
    for i in range(5):
        rows = slice(i * CIFAR10_BATCH, (i + 1) * CIFAR10_BATCH)
        train[0][rows], train[1][rows] = _read_batch(folder, f"data_batch_{i + 1}")
    return Images(*train, *_read_batch(folder, "test_batch"), CIFAR10_CLASSES)


def download_cifar10() -> Path:
    """Return the folder of CIFAR-10's files, downloaded if Keras' cache lacks it. Raise DatasetError if that fails."""
    from tf_keras.utils import get_file  # heavy, and only needed without a folder

    try:
        archive = get_file(
            "cifar-10-batches-py",
            origin="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            untar=True,
            file_hash="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        )
    except Exception as error:  # noqa: BLE001 (urllib, tarfile and Keras each raise their own)
        raise DatasetError(
            f"data set cifar10 could not be downloaded ({error}); get cifar-10-python.tar.gz elsewhere, unpack it and "
            "type: pulumi config set datasetPath FOLDER/cifar-10-batches-py"
        ) from None
    return Path(archive)


def _read_batch(folder: str, name: str) -> tuple[Bytes, Labels]:
    path = f"{folder.rstrip('/')}/{name}"
    try:
        content = _content(folder, name)
        batch = cifar_pickle.load(content)
        pixels = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, SIDE, SIDE)
        labels = np.asarray(batch[b"labels"], dtype=np.int32)
    except FileNotFoundError:
        raise DatasetError(
            f"data set cifar10: {path} is missing; {folder} should be a cifar-10-batches-py folder "
            "with data_batch_1 to data_batch_5 and test_batch"
        ) from None
    except Exception as error:  # noqa: BLE001 (a damaged pickle can raise anything)
        raise DatasetError(
            f"data set cifar10: {path} is damaged ({type(error).__name__}: {error}); unpack it again"
        ) from None
    if len(pixels) != CIFAR10_BATCH:
        raise DatasetError(f"data set cifar10: {path} holds {len(pixels)} images; it should hold {CIFAR10_BATCH}")
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels


def _content(folder: str, name: str) -> bytes:
    if "://" not in folder:
        return Path(folder, name).read_bytes()
    return Storage.at(folder).read(name)


def make_synthetic(train_images: int, seed: int) -> Images:
    """Return images, each its class's colour pattern under noise; for testing a fifth as many, but at least 100."""
    random = np.random.default_rng(seed)
    patterns = random.integers(64, 192, size=(10, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)

    def part(count: int) -> tuple[Bytes, Labels]:
        labels = (np.arange(count) % 10).astype(np.int32)
        noise = random.normal(0, 48, size=(count, SIDE, SIDE, 3)).astype(np.float32)
        return np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8), labels

    return Images(*part(train_images), *part(max(100, train_images // 5)), tuple(f"pattern {i}" for i in range(10)))
