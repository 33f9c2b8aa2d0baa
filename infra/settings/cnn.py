"""The settings of the CNN in addition to its recipe (its data set, its arms' switches), and the checks between them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from infra.settings.draft import Draft, is_readable_folder
from infra.settings.key import CLUSTER, LOCAL, RAY, Target, setting
from infra.settings.problem import Problem, set_line
from infra.settings.rules import is_in_bucket
from infra.settings.table import OfWorkload
from training.contract.rules import boolean, choice, text
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import DATASETS
from training.workloads.cnn.shapes import TEST_FOLDERS, TRAIN_FOLDER

AUTO = "auto"
AUTO_DATASETS: dict[Target, str] = {**dict.fromkeys((*LOCAL, *RAY), "digits"), **dict.fromkeys(CLUSTER, "cifar10")}
"""The data set that `auto` means on each target if `datasetPath` is not set."""
CIFAR10_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
IMAGEFOLDER = "imagefolder"
WITHOUT_FILES = ("digits", "synthetic")
"""Data sets that need no files of the user's, because their images come with the program."""
CNNS = ("cnn", "cnn-half", "cnn-double")
LARGEST_OF_CNN = 128
"""The largest side of an image in pixels for the CNNs: the dense layer of `cnn` then has 34 million weights."""
A_BUCKET = "s3://my-bucket/training"
_LEAST_IMAGES = 10
"""The fewest images. Every tenth image is for validation, so fewer than ten leave no image for validation."""


@dataclass(frozen=True, kw_only=True)
class CnnSettings:
    """The keys of the CNN in addition to its recipe."""

    dataset: str = setting(
        AUTO,
        choice([AUTO], DATASETS),
        "data set; auto: digits on local and ray without datasetPath, else cifar10",
    )
    dataset_path: str | None = setting(
        "",
        text("a folder of this machine, or an address in storage"),
        "where imagefolder's images are, or CIFAR-10's files instead of a download; in storage s3://…, gs://…, or "
        "/storage/… of a claim",
        example="data/cifar-10-batches-py",
        derived="none",
    )
    ray_dashboard: bool = setting(
        "false", boolean(), "start Ray's dashboard on loopback during a ray run", targets=LOCAL
    )


@dataclass(frozen=True, kw_only=True)
class CnnDraft(Draft):
    """The settings of a stack that trains the CNN, not checked yet."""

    recipe: CnnRecipe
    own: CnnSettings


def dataset_of(draft: CnnDraft) -> str:
    """Return the name of the data set, after `auto` was replaced."""
    if draft.own.dataset != AUTO:
        return draft.own.dataset
    return "cifar10" if draft.own.dataset_path else AUTO_DATASETS[draft.target]


def _images(draft: CnnDraft) -> int:
    """Return the number of images before validation images are split off; 0 if only the data's loader knows it."""
    return draft.recipe.train_images or DATASETS[dataset_of(draft)].train_images


def _after_validation(images: int) -> int:
    """Return the number of images left for training, split as by `training.workloads.cnn.dataset.load` (tested)."""
    return images - images // 10


def _batch_holds_workers(draft: CnnDraft) -> Iterator[Problem]:
    workers, batch = draft.recipe.workers, draft.recipe.global_batch_size
    if batch < workers:
        yield Problem(
            f"{draft.shown('globalBatchSize')} with {draft.shown('workers')}",
            f"globalBatchSize of {workers} or more with {workers} workers",
            (set_line("globalBatchSize", workers), set_line("workers", batch)),
            why="every worker takes at least one image of each step",
        )


def _images_exist(draft: CnnDraft) -> Iterator[Problem]:
    name = dataset_of(draft)
    available = DATASETS[name].train_images
    if available and not DATASETS[name].any_size and draft.recipe.train_images > available:
        yield Problem(
            draft.shown("trainImages"),
            f"at most {available}, the training images of {name}",
            (set_line("trainImages", available),),
        )


def _epoch_has_a_step(draft: CnnDraft) -> Iterator[Problem]:
    images, batch = _images(draft), draft.recipe.global_batch_size
    training = _after_validation(images)
    if not images or (images >= _LEAST_IMAGES and training >= batch):
        return
    enough = _images_for(batch)
    entry = DATASETS[dataset_of(draft)]
    can_grow = entry.any_size or (draft.recipe.train_images and enough <= (entry.train_images or enough))
    more = [set_line("trainImages", enough)] if can_grow else []
    less = [set_line("globalBatchSize", training)] if images >= _LEAST_IMAGES else []
    yield Problem(
        f"{draft.shown('globalBatchSize')} with {draft.shown('trainImages')}",
        f"globalBatchSize of at most the images left for training, and trainImages of at least {_LEAST_IMAGES}",
        (*more, *less),
        why=f"of {images} images of {dataset_of(draft)}, {images - training} validate and {training} train",
    )


def _images_for(batch: int) -> int:
    """Return the fewest images whose training part fills one batch."""
    images = max(_LEAST_IMAGES, batch)
    while _after_validation(images) < batch:
        images += 1
    return images


def _steps_are_timed(draft: CnnDraft) -> Iterator[Problem]:
    images, warmup = _after_validation(_images(draft)), draft.recipe.warmup_steps
    steps = math.ceil(images / draft.recipe.global_batch_size)
    total = draft.recipe.epochs * steps
    if images < draft.recipe.global_batch_size or warmup < total:  # without one full step, another check says so
        return
    yield Problem(
        draft.shown("warmupSteps"),
        f"at most {total - 1}",
        (
            set_line("warmupSteps", min(int(draft.keys["warmupSteps"].default), total - 1)),
            set_line("epochs", warmup // steps + 1),
        ),
        why=f"a run has {total} steps ({draft.recipe.epochs} × {steps}), and only those after the warm-up are timed",
    )


def _dataset_path_is_of_use(draft: CnnDraft) -> Iterator[Problem]:
    folder, name = draft.path(draft.own.dataset_path), dataset_of(draft)
    if draft.own.dataset_path and name in WITHOUT_FILES:
        yield Problem(
            f"{draft.shown('datasetPath')} with {draft.shown('dataset')}",
            f"set with dataset {' or '.join(other for other in DATASETS if other not in WITHOUT_FILES)} only",
            ("pulumi config rm datasetPath",),
            why=f"the images of {name} come with the program: no run would read yours",
        )
    elif folder and not is_readable_folder(folder):
        yield Problem(
            draft.shown("datasetPath"),
            "a folder that exists",
            ("pulumi config rm datasetPath",),
            why=f"there is no folder {str(folder)!r}, or it can't be read",
        )


def _data_is_in_its_storage(draft: CnnDraft) -> Iterator[Problem]:
    """Yield a problem unless data in storage has a valid address that the credentials of `storage` are for."""
    address, storage = draft.in_storage(draft.own.dataset_path), draft.storage.address or ""
    if not address or draft.target in RAY:
        return
    scheme, is_bucket, _ = address.partition("://")
    if (is_bucket and not is_in_bucket(address)) or ".." in PurePosixPath(address).parts:
        yield Problem(
            "datasetPath is no address in storage",
            "s3://bucket/prefix, gs://bucket/prefix, or /storage/… of a claim, without credentials, options and ..",
            (_without_data(draft),),
        )
    elif is_bucket and not storage.startswith(f"{scheme}://"):
        let_in = (set_line("storage", A_BUCKET),) if draft.target in LOCAL else draft.lines_for_storage()
        lines = let_in if A_BUCKET.startswith(scheme) and not storage else ()
        yield Problem(
            f"{draft.shown('datasetPath')} with {draft.shown('storage')}",
            "a folder, or an address of the same kind as storage, s3:// or gs://",
            (*lines, _without_data(draft)),
            why="runs use the credentials of storage",
        )


def _without_data(draft: CnnDraft) -> str:
    """Return the command line that removes `datasetPath`, and `dataset`, too, if that data set needs a path."""
    line = "pulumi config rm datasetPath"
    return f"{line} && pulumi config rm dataset" if draft.own.dataset == IMAGEFOLDER else line


def _images_are_somewhere(draft: CnnDraft) -> Iterator[Problem]:
    """Yield a problem if runs cannot find the user's images. Target ray has a check of its own."""
    if draft.own.dataset != IMAGEFOLDER or draft.target in RAY:
        return
    folder = draft.path(draft.own.dataset_path)
    if not draft.own.dataset_path:
        yield Problem(
            f"{draft.shown('dataset')} with {draft.shown('datasetPath')}",
            "imagefolder with datasetPath",
            ("pulumi config rm dataset",),
            why="these are your own images: `pulumi config set datasetPath` with a folder, s3://… or /storage/…",
        )
    elif folder and draft.target in CLUSTER:
        yield Problem(
            f"{draft.shown('datasetPath')} with {draft.shown('dataset')}",
            f"an address in storage on target {draft.target}: s3://…, gs://…, or /storage/… with storage pvc",
            (_without_data(draft),),
            why="pods cannot read a folder of this machine, and the training image does not contain it",
        )


def _images_are_by_class(draft: CnnDraft) -> Iterator[Problem]:
    folder = draft.path(draft.own.dataset_path)
    if draft.own.dataset != IMAGEFOLDER or folder is None or not is_readable_folder(folder) or draft.target in CLUSTER:
        return
    tested = [name for name in TEST_FOLDERS if (folder / name).is_dir()]
    if not (folder / TRAIN_FOLDER).is_dir() or not tested:
        inside = [train_folder.parent for train_folder in sorted(folder.glob(f"*/{TRAIN_FOLDER}"))]
        yield Problem(
            draft.shown("datasetPath"),
            f"a folder with {TRAIN_FOLDER}/CLASS/*.jpg and {TEST_FOLDERS[0]}/CLASS/*.jpg",
            (*(set_line("datasetPath", data_folder) for data_folder in inside[:1]), _without_data(draft)),
            why=f"{folder} has no folder {TEST_FOLDERS[0] if not tested else TRAIN_FOLDER}",
        )


def _image_size_is_used(draft: CnnDraft) -> Iterator[Problem]:
    name, side = dataset_of(draft), draft.recipe.image_size
    if draft.is_set("imageSize") and not DATASETS[name].any_side:
        sized = [entry.name for entry in DATASETS.values() if entry.any_side]
        yield Problem(
            f"{draft.shown('imageSize')} with dataset {name}",
            f"set with dataset {' or '.join(sized)} only",
            ("pulumi config rm imageSize",),
            why="the images of other data sets have a fixed size",
        )
    elif side > LARGEST_OF_CNN and draft.recipe.model in CNNS:
        yield Problem(
            f"{draft.shown('imageSize')} with {draft.shown('model')}",
            f"at most {LARGEST_OF_CNN} with model {draft.recipe.model}",
            (set_line("imageSize", LARGEST_OF_CNN), set_line("model", "resnet50")),
            why="its dense layer grows with the square of the size, to billions of weights",
        )


def _cifar10_is_whole(draft: CnnDraft) -> Iterator[Problem]:
    folder = draft.path(draft.own.dataset_path)
    if folder is None or not is_readable_folder(folder) or dataset_of(draft) != "cifar10":
        return
    missing = [name for name in CIFAR10_FILES if not (folder / name).is_file()]
    inside = [batch_file.parent for batch_file in sorted(folder.glob("*/data_batch_1"))]
    if missing:
        yield Problem(
            draft.shown("datasetPath"),
            f"a folder with the files {', '.join(CIFAR10_FILES)}",
            (*(set_line("datasetPath", data_folder) for data_folder in inside[:1]), "pulumi config rm datasetPath"),
            why=f"{folder} has no {', '.join(missing)}",
        )


def _models_have_a_place(draft: CnnDraft) -> Iterator[Problem]:
    if draft.recipe.save_model and draft.target not in LOCAL and not draft.storage.address:
        yield Problem(
            f"{draft.shown('saveModel')} with {draft.shown('storage')}",
            "true with storage, or on target local",
            (*draft.lines_for_storage(), set_line("saveModel", "false")),
            why="the files of a run are deleted with its pod or its job",
        )


def _checkpoints_have_a_place(draft: CnnDraft) -> Iterator[Problem]:
    if draft.recipe.checkpoint_epochs and not draft.storage.address:
        yield Problem(
            f"{draft.shown('checkpointEpochs')} with {draft.shown('storage')}",
            "checkpoints only with storage",
            (*draft.lines_for_storage(), set_line("checkpointEpochs", 0)),
            why="they have to outlive the run that resumes from them",
        )


def _checkpoints_are_made(draft: CnnDraft) -> Iterator[Problem]:
    every, epochs = draft.recipe.checkpoint_epochs, draft.recipe.epochs
    if every > epochs:
        yield Problem(
            f"{draft.shown('checkpointEpochs')} with {draft.shown('epochs')}",
            f"at most {epochs}",
            (set_line("checkpointEpochs", epochs), set_line("epochs", every)),
            why="a run would end before its first checkpoint",
        )
    if not every and draft.recipe.checkpoints_kept != int(draft.keys["checkpointsKept"].default):
        yield Problem(
            f"{draft.shown('checkpointsKept')} with {draft.shown('checkpointEpochs')}",
            "set only with checkpointEpochs",
            ("pulumi config rm checkpointsKept",),
            why="without checkpointEpochs there are none to keep",
        )


def derived(draft: CnnDraft) -> Mapping[str, Any]:
    """Return the derived values: the name of the data set, and the precision of exchanged gradients. A gradient
    computed in bfloat16 has no more digits to send, so workers exchange bfloat16."""
    recipe = draft.recipe
    precision = recipe.gradient_precision if draft.is_set("gradientPrecision") else recipe.precision
    return {"gradientPrecision": precision, "dataset": dataset_of(draft)}


OWN = OfWorkload(
    section=CnnSettings,
    draft=CnnDraft,
    checks=(
        _batch_holds_workers,
        _images_exist,
        _epoch_has_a_step,
        _steps_are_timed,
        _dataset_path_is_of_use,
        _data_is_in_its_storage,
        _images_are_somewhere,
        _images_are_by_class,
        _image_size_is_used,
        _cifar10_is_whole,
        _models_have_a_place,
        _checkpoints_have_a_place,
        _checkpoints_are_made,
    ),
    recipe=derived,
)
