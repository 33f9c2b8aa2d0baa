"""Images: loading and checking a data set, splitting off validation, and each epoch's order. No TensorFlow, no model.

Every process holds images as uint8 in memory, and the training step picks its own with an index: of a data set that is
built in all of them, of one that is listed the part that is its own, for the whole run.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from training.contract.recipe import batch_split
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import DATASETS
from training.workloads.cnn.shapes import SIDE, Share, Source
from training.workloads.cnn.sources import Bytes, DatasetError, Images, Labels, Listed

VALIDATION_SHARE = 0.1
VALIDATION_SEED = 2009
"""A fixed seed, so that the validation images are the same in every run, whatever seed the run has."""


@dataclass(frozen=True)
class Part:
    """Images (n, side, side, 3) uint8 with their labels (n,) int32."""

    images: Bytes
    labels: Labels


@dataclass(frozen=True)
class Data:
    """A data set ready for training, as one process has it."""

    known: Part
    """Images and labels for training and validation that this process has in memory."""
    first: int
    """Offset of the rows that this process has: training row `row` is row `row - first` of `known`."""
    train_rows: Labels
    """Numbers of the training rows of all processes together."""
    parts: tuple[Labels, ...]
    """Positions of each process's own rows in an epoch's order; empty if every process knows every row."""
    own_validation: Labels
    """Rows of `known` that this process validates with."""
    validation_images: int
    """Number of validation images of all processes together; `test_images` is the same for testing."""
    test_images: int
    test: Part
    """Images that this process tests with."""
    class_names: tuple[str, ...]
    sha256: str
    """Hash of the whole data set, whatever part of it is used."""

    def validation(self) -> Part:
        """Return a copy of this process's validation images."""
        return Part(self.known.images[self.own_validation], self.known.labels[self.own_validation])

    def epoch_order(self, seed: int, epoch: int) -> Labels:
        """Return the training rows in the order of epoch `epoch`, from 1, which is the same in every process."""
        if not self.parts:
            return np.random.default_rng([seed, epoch]).permutation(self.train_rows)
        order, first = np.empty_like(self.train_rows), 0
        for rank, places in enumerate(self.parts):
            own = self.train_rows[first : first + len(places)]
            order[places] = np.random.default_rng([seed, epoch, rank]).permutation(own)
            first += len(places)
        return order


def load(recipe: CnnRecipe, path: str, share: Share) -> Data:
    """Return the recipe's data set, read from `path`: checked, shortened to `trainImages`, with 10 % held out for
    validation. Raise DatasetError if the data set can't be used."""
    wanted = recipe.train_images
    source = Source(path=path, train_images=wanted, seed=VALIDATION_SEED, side=recipe.image_size)
    loaded = DATASETS[recipe.dataset].load(source)
    if isinstance(loaded, Listed):
        return _own_part(loaded, recipe, share)
    check(loaded, recipe.dataset)
    known, shuffled = Part(loaded.train_images, loaded.train_labels), _shuffled(len(loaded.train_labels))
    if 0 < wanted < len(shuffled):
        chosen = np.sort(shuffled[:wanted])
        known, shuffled = Part(known.images[chosen], known.labels[chosen]), _shuffled(len(chosen))
    held_out = _held_out(len(shuffled))
    validation, mine = np.sort(shuffled[:held_out]), slice(share.rank, None, share.world)
    return Data(
        known=known,
        first=0,
        train_rows=np.sort(shuffled[held_out:]),
        parts=(),
        own_validation=validation[mine],
        validation_images=len(validation),
        test_images=len(loaded.test_labels),
        test=Part(loaded.test_images[mine], loaded.test_labels[mine]),
        class_names=loaded.class_names,
        sha256=_digest(loaded),
    )


def _own_part(listed: Listed, recipe: CnnRecipe, share: Share) -> Data:
    """Return this process's part of a data set of files, and read no other file. Training rows are numbered by
    process."""
    shuffled = _shuffled(len(listed.train_files))[: recipe.train_images or None]
    tested = _shuffled(len(listed.test_files))[: _tested(recipe.train_images, len(listed.class_names))]
    held_out = _held_out(len(shuffled))
    validation, training = shuffled[:held_out], shuffled[held_out:]
    _refuse_too_few(recipe, len(listed.train_files), held_out, len(training))
    parts, mine = _places(len(training), share), slice(share.rank, None, share.world)
    first = sum(len(places) for places in parts[: share.rank])
    own = training[first : first + len(parts[share.rank])]
    chosen, test = np.concatenate([own, validation[mine]]), tested[mine]
    files = [*(listed.train_files[row] for row in chosen), *(listed.test_files[row] for row in test)]
    images = listed.read(files, share.world)
    return Data(
        known=Part(images[: len(chosen)], listed.train_labels[chosen]),
        first=first,
        train_rows=np.arange(len(training), dtype=np.int32),
        parts=parts,
        own_validation=np.arange(len(own), len(chosen), dtype=np.int32),
        validation_images=len(validation),
        test_images=len(tested),
        test=Part(images[len(chosen) :], listed.test_labels[test]),
        class_names=listed.class_names,
        sha256=listed.sha256,
    )


def _tested(wanted: int, classes: int) -> int | None:
    """Return how many test images to use: a fifth of the wanted training images, at least one a class; None for all."""
    return max(classes, wanted // 5) if wanted else None


def _refuse_too_few(recipe: CnnRecipe, files: int, validation: int, training: int) -> None:
    """Raise DatasetError if the settings need more images than there are files, whose number is known only now."""
    if recipe.train_images > files:
        raise DatasetError(
            f"data set {recipe.dataset}: trainImages = {recipe.train_images}, and there are {files}; "
            f"type: pulumi config set trainImages {files}"
        )
    if not validation or training < recipe.global_batch_size:
        raise DatasetError(
            f"data set {recipe.dataset}: of {validation + training} images {validation} validate and {training} train, "
            f"and a step has {recipe.global_batch_size}; type: pulumi config set globalBatchSize {max(1, training)}"
        )
    steps = recipe.epochs * -(-training // recipe.global_batch_size)
    if recipe.warmup_steps >= steps:
        raise DatasetError(
            f"data set {recipe.dataset}: a run has {steps} steps, and with warmupSteps {recipe.warmup_steps} none is "
            f"timed; type: pulumi config set warmupSteps {steps - 1}"
        )


def _places(images: int, share: Share) -> tuple[Labels, ...]:
    """Return the positions of each process's images in an epoch's order; `batch_split` divides each step's images."""
    splits = [batch_split(min(share.batch, images - start), share.world) for start in range(0, images, share.batch)]
    ranks = np.repeat(np.tile(np.arange(share.world), len(splits)), np.concatenate(splits))
    return tuple(np.flatnonzero(ranks == rank).astype(np.int32) for rank in range(share.world))


def _held_out(images: int) -> int:
    return int(images * VALIDATION_SHARE)


def _shuffled(count: int) -> Labels:
    return np.random.default_rng(VALIDATION_SEED).permutation(count).astype(np.int32)


def check(images: Images, name: str) -> None:
    """Raise DatasetError if shapes, types, counts or labels are not what training expects."""
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
