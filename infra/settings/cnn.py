"""The settings of the CNN in addition to its recipe: its data set and its arms' switches, and the checks between
them."""

import math
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from infra.settings.checks import Check, in_storage, is_readable_folder, is_set, lines_for_storage, path_of
from infra.settings.draft import Draft, Problem, set_line
from infra.settings.key import CLUSTER, LOCAL, RAY, Key, Target
from infra.settings.rules import is_in_bucket
from infra.settings.table import OfWorkload
from training.contract.rules import boolean, choice, text
from training.workloads.cnn.registry import DATASETS
from training.workloads.cnn.shapes import TEST_FOLDERS, TRAIN_FOLDER

AUTO = "auto"
AUTO_DATASETS: dict[Target, str] = {**dict.fromkeys((*LOCAL, *RAY), "digits"), **dict.fromkeys(CLUSTER, "cifar10")}
"""The data set that `auto` selects without a datasetPath."""
CIFAR10_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
IMAGEFOLDER = "imagefolder"
CNNS = ("cnn", "cnn-half", "cnn-double")
LARGEST_OF_CNN = 128
"""The largest side in pixels: there the dense layer of `cnn` has 34 million weights."""
A_BUCKET = "s3://my-bucket/training"
_LEAST_IMAGES = 10
"""The fewest images: with fewer, none is left for validation, which takes every tenth."""
_KEYS = (
    Key(
        name="dataset",
        rule=choice([AUTO], DATASETS),
        default=AUTO,
        help="data set to train on; auto: digits on local and ray without datasetPath, else cifar10",
    ),
    Key(
        name="datasetPath",
        rule=text("a folder of this machine, or an address in storage"),
        example="data/cifar-10-batches-py",
        derived="none",
        help="where imagefolder's images are, or CIFAR-10's files if they are not to be downloaded: a folder, s3://…, "
        "gs://…, or /storage/… of a claim",
    ),
    Key(
        name="rayDashboard",
        rule=boolean(),
        default="false",
        targets=LOCAL,
        help="start Ray's dashboard on loopback during a ray run",
    ),
)


def dataset_of(draft: Draft) -> str:
    """Return the data set, `auto` resolved."""
    name = str(draft["dataset"])
    if name != AUTO:
        return name
    return "cifar10" if draft["datasetPath"] else AUTO_DATASETS[draft.target]


def _images(draft: Draft) -> int:
    """Return the number of images before validation is split off; 0 if only the data set's loader knows it."""
    return int(draft["trainImages"] or DATASETS[dataset_of(draft)].train_images)


def _after_validation(images: int) -> int:
    """Return the images left for training, as `training.workloads.cnn.dataset.load` splits them; a test compares
    both."""
    return images - images // 10


def _batch_holds_workers(draft: Draft) -> Iterator[Problem]:
    workers, batch = draft["workers"], draft["globalBatchSize"]
    if batch < workers:
        yield Problem(
            f"{draft.shown('globalBatchSize')} with {draft.shown('workers')}",
            f"globalBatchSize of {workers} or more with {workers} workers",
            (set_line("globalBatchSize", workers), set_line("workers", batch)),
            why="every worker takes at least one image of each step",
        )


def _images_exist(draft: Draft) -> Iterator[Problem]:
    name = dataset_of(draft)
    available = DATASETS[name].train_images
    if available and not DATASETS[name].any_size and draft["trainImages"] > available:
        yield Problem(
            draft.shown("trainImages"),
            f"at most {available}, the training images of {name}",
            (set_line("trainImages", available),),
        )


def _epoch_has_a_step(draft: Draft) -> Iterator[Problem]:
    images, batch = _images(draft), draft["globalBatchSize"]
    training = _after_validation(images)
    if not images or (images >= _LEAST_IMAGES and training >= batch):
        return
    enough = _images_for(batch)
    entry = DATASETS[dataset_of(draft)]
    can_grow = entry.any_size or (draft["trainImages"] and enough <= (entry.train_images or enough))
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


def _steps_are_timed(draft: Draft) -> Iterator[Problem]:
    images, warmup = _after_validation(_images(draft)), draft["warmupSteps"]
    steps = math.ceil(images / draft["globalBatchSize"])
    total = draft["epochs"] * steps
    if images < draft["globalBatchSize"] or warmup < total:  # without one full step, another check says so
        return
    yield Problem(
        draft.shown("warmupSteps"),
        f"at most {total - 1}",
        (
            set_line("warmupSteps", min(int(draft.keys["warmupSteps"].default), total - 1)),
            set_line("epochs", warmup // steps + 1),
        ),
        why=f"a run has {total} steps ({draft['epochs']} × {steps}), and only those after the warm-up are timed",
    )


def _dataset_path_exists(draft: Draft) -> Iterator[Problem]:
    folder = path_of(draft, "datasetPath")
    if folder and not is_readable_folder(folder):
        yield Problem(
            draft.shown("datasetPath"),
            "a folder that exists, whatever the data set",
            ("pulumi config rm datasetPath",),
            why=f"there is no folder {str(folder)!r}, or it can't be read",
        )


def _data_is_in_its_storage(draft: Draft) -> Iterator[Problem]:
    """Check that data in storage has the address, the server and the credentials of `storage`."""
    address, storage = in_storage(draft, "datasetPath"), str(draft["storage"] or "")
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
        let_in = (set_line("storage", A_BUCKET),) if draft.target in LOCAL else lines_for_storage(draft)
        lines = let_in if A_BUCKET.startswith(scheme) and not storage else ()
        yield Problem(
            f"{draft.shown('datasetPath')} with {draft.shown('storage')}",
            "a folder, or an address of the same kind as storage, s3:// or gs://",
            (*lines, _without_data(draft)),
            why="runs use the credentials of storage",
        )


def _without_data(draft: Draft) -> str:
    """Return the line that leaves out `datasetPath`, and the data set that needs it."""
    line = "pulumi config rm datasetPath"
    return f"{line} && pulumi config rm dataset" if draft["dataset"] == IMAGEFOLDER else line


def _images_are_somewhere(draft: Draft) -> Iterator[Problem]:
    """Check that runs can find the images; target ray has a check of its own."""
    if draft["dataset"] != IMAGEFOLDER or draft.target in RAY:
        return
    folder = path_of(draft, "datasetPath")
    if not draft["datasetPath"]:
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


def _images_are_by_class(draft: Draft) -> Iterator[Problem]:
    folder = path_of(draft, "datasetPath")
    if draft["dataset"] != IMAGEFOLDER or folder is None or not is_readable_folder(folder) or draft.target in CLUSTER:
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


def _image_size_is_used(draft: Draft) -> Iterator[Problem]:
    name = dataset_of(draft)
    if is_set(draft, "imageSize") and not DATASETS[name].any_side:
        sized = [entry.name for entry in DATASETS.values() if entry.any_side]
        yield Problem(
            f"{draft.shown('imageSize')} with dataset {name}",
            f"set with dataset {' or '.join(sized)} only",
            ("pulumi config rm imageSize",),
            why="the images of other data sets have a fixed size",
        )
    elif draft["imageSize"] > LARGEST_OF_CNN and draft["model"] in CNNS:
        yield Problem(
            f"{draft.shown('imageSize')} with {draft.shown('model')}",
            f"at most {LARGEST_OF_CNN} with model {draft['model']}",
            (set_line("imageSize", LARGEST_OF_CNN), set_line("model", "resnet50")),
            why="its dense layer grows with the square of the size, to billions of weights",
        )


def _cifar10_is_whole(draft: Draft) -> Iterator[Problem]:
    folder = path_of(draft, "datasetPath")
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


def _models_have_a_place(draft: Draft) -> Iterator[Problem]:
    if draft["saveModel"] and draft.target not in LOCAL and not draft["storage"]:
        yield Problem(
            f"{draft.shown('saveModel')} with {draft.shown('storage')}",
            "true with storage, or on target local",
            (*lines_for_storage(draft), set_line("saveModel", "false")),
            why="the files of a run are deleted with its pod or its job",
        )


def _checkpoints_have_a_place(draft: Draft) -> Iterator[Problem]:
    if draft["checkpointEpochs"] and not draft["storage"]:
        yield Problem(
            f"{draft.shown('checkpointEpochs')} with {draft.shown('storage')}",
            "checkpoints only with storage",
            (*lines_for_storage(draft), set_line("checkpointEpochs", 0)),
            why="they have to outlive the run that resumes from them",
        )


def _checkpoints_are_made(draft: Draft) -> Iterator[Problem]:
    every, epochs = draft["checkpointEpochs"], draft["epochs"]
    if every > epochs:
        yield Problem(
            f"{draft.shown('checkpointEpochs')} with {draft.shown('epochs')}",
            f"at most {epochs}",
            (set_line("checkpointEpochs", epochs), set_line("epochs", every)),
            why="a run would end before its first checkpoint",
        )
    if not every and draft["checkpointsKept"] != int(draft.keys["checkpointsKept"].default):
        yield Problem(
            f"{draft.shown('checkpointsKept')} with {draft.shown('checkpointEpochs')}",
            "set only with checkpointEpochs",
            ("pulumi config rm checkpointsKept",),
            why="without checkpointEpochs there are none to keep",
        )


def derived(draft: Draft) -> Mapping[str, Any]:
    """Return the derived values: a gradient computed in bfloat16 has no more digits to send, so workers exchange that
    type."""
    precision = draft["gradientPrecision"] or draft["precision"]
    return {"gradientPrecision": precision, "dataset": dataset_of(draft)}


_IMAGE_KEYS = ("target", "dataset", "datasetPath", "trainImages", "globalBatchSize")
OWN = OfWorkload(
    keys=_KEYS,
    derived={"trainImages": ("all", 0), "gradientPrecision": ("that of precision", None)},
    examples={"trainImages": "1024", "gradientPrecision": "float32"},
    # An epoch of all CIFAR-10 takes one core five minutes, and nine runs should take under twenty
    defaults={"trainImages": dict.fromkeys(CLUSTER, "2560")},
    checks=(
        Check(_batch_holds_workers, ("workers", "globalBatchSize")),
        Check(_images_exist, ("target", "dataset", "datasetPath", "trainImages")),
        Check(_epoch_has_a_step, _IMAGE_KEYS),
        Check(_steps_are_timed, (*_IMAGE_KEYS, "epochs", "warmupSteps")),
        Check(_dataset_path_exists, ("datasetPath",)),
        Check(_data_is_in_its_storage, ("target", "dataset", "datasetPath", "storage")),
        Check(_images_are_somewhere, ("target", "dataset", "datasetPath", "storage")),
        Check(_images_are_by_class, ("target", "dataset", "datasetPath")),
        Check(_image_size_is_used, ("target", "dataset", "datasetPath", "imageSize", "model")),
        Check(_cifar10_is_whole, ("target", "dataset", "datasetPath")),
        Check(_models_have_a_place, ("target", "saveModel", "storage")),
        Check(_checkpoints_have_a_place, ("target", "checkpointEpochs", "storage")),
        Check(_checkpoints_are_made, ("checkpointEpochs", "checkpointsKept", "epochs")),
    ),
    recipe=derived,
)
