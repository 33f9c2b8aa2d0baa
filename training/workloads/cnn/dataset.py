"""Images: loading and checking a data set, splitting off validation, and each epoch's order. No TensorFlow, no model.

Every process holds the training images once, as uint8; the training step picks its own with an index.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from training.workloads.cnn.registry import DATASETS
from training.workloads.cnn.shapes import Source
from training.workloads.cnn.sources import SIDE, Bytes, DatasetError, Images, Labels

VALIDATION_SHARE = 0.1
VALIDATION_SEED = 2009
"""Fixed: the validation images are the same in every run, whatever its seed."""


@dataclass(frozen=True)
class Part:
    """Images (n, 32, 32, 3) uint8 with their labels (n,) int32."""

    images: Bytes
    labels: Labels


@dataclass(frozen=True)
class Data:
    """A data set ready for training. Training and validation images are rows of `known`, which is never copied."""

    known: Part
    train_rows: Labels
    validation_rows: Labels
    test: Part
    class_names: tuple[str, ...]
    sha256: str
    """Of the whole data set as loaded, whatever part of it is used."""

    def validation(self) -> Part:
        """The held-out images, copied."""
        return Part(self.known.images[self.validation_rows], self.known.labels[self.validation_rows])

    def epoch_order(self, seed: int, epoch: int) -> Labels:
        """Rows of the training images as epoch `epoch`, from 1, visits them: the same in every process."""
        return np.random.default_rng([seed, epoch]).permutation(self.train_rows)


def load(name: str, train_images: int, path: str) -> Data:
    """The data set `name`: loaded, checked, shortened to so many images (0: all), 10 % held out for validation.

    Raises DatasetError.
    """
    source = Source(path=path, train_images=train_images, seed=VALIDATION_SEED)
    images = DATASETS[name].load(source)
    check(images, name)
    known, shuffled = Part(images.train_images, images.train_labels), _shuffled(len(images.train_labels))
    if 0 < train_images < len(shuffled):
        chosen = np.sort(shuffled[:train_images])
        known, shuffled = Part(known.images[chosen], known.labels[chosen]), _shuffled(len(chosen))
    held_out = int(len(shuffled) * VALIDATION_SHARE)
    return Data(
        known=known,
        train_rows=np.sort(shuffled[held_out:]),
        validation_rows=np.sort(shuffled[:held_out]),
        test=Part(images.test_images, images.test_labels),
        class_names=images.class_names,
        sha256=_digest(images),
    )


def _shuffled(count: int) -> Labels:
    return np.random.default_rng(VALIDATION_SEED).permutation(count).astype(np.int32)


def check(images: Images, name: str) -> None:
    """Raises DatasetError if shapes, types, counts or labels are not what training expects."""
    parts = (("training", images.train_images, images.train_labels), ("test", images.test_images, images.test_labels))
    for part, pixels, labels in parts:
        what = f"data set {name}, {part} part:"
        if pixels.ndim != 4 or pixels.shape[1:] != (SIDE, SIDE, 3):
            raise DatasetError(f"{what} images have shape {pixels.shape}; they should have (n, {SIDE}, {SIDE}, 3)")
        if pixels.dtype != np.uint8:
            raise DatasetError(f"{what} images are {pixels.dtype}; they should be uint8")
        if labels.dtype != np.int32 or labels.shape != (len(pixels),):
            raise DatasetError(f"{what} {labels.dtype} labels of shape {labels.shape} for {len(pixels)} images")
        if len(pixels) == 0:
            raise DatasetError(f"{what} it is empty")
        if labels.min() < 0 or labels.max() >= len(images.class_names):
            raise DatasetError(
                f"{what} labels from {labels.min()} to {labels.max()}; "
                f"with {len(images.class_names)} classes they should be 0 to {len(images.class_names) - 1}"
            )


def _digest(images: Images) -> str:
    total = hashlib.sha256()
    for array in (images.train_images, images.train_labels, images.test_images, images.test_labels):
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()
