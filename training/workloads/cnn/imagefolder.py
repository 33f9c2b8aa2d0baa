"""Images as files, one folder a class, in the layout of ImageNet: `train/CLASS/*.jpg` and `val/CLASS/*.jpg`.

In a folder or in storage. What there is, is known from a list of the files; each worker reads its own part of them. It
knows no recipe and no registry.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

import numpy as np

from training.launch.storage.run_storage import Storage
from training.machine.cgroup import memory_available, memory_limit
from training.workloads.cnn.shapes import TEST_FOLDERS, TRAIN_FOLDER, Source
from training.workloads.cnn.sources import Bytes, DatasetError, Labels, Listed

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
READERS = 8
"""Number of images that are read at the same time, so that one waits for storage while another is decoded."""
_COPIES = 2
"""Number of copies of the images in memory: as read, and as TensorFlow keeps them."""


def listed(source: Source) -> Listed:
    """Return the list of a folder's images with labels. Raise DatasetError if unreadable, or laid out otherwise."""
    if not source.path:
        raise DatasetError("data set imagefolder has no datasetPath; type: pulumi config set datasetPath FOLDER")
    try:
        storage = Storage.at(source.path)
        sizes = dict(storage.sizes())
    except OSError as error:
        raise DatasetError(f"data set imagefolder: {source.path} cannot be read ({error})") from None
    files = {name: size for name, size in sizes.items() if not _is_hidden(name)}
    folders = {name.partition("/")[0] for name in files}
    test = next((folder for folder in TEST_FOLDERS if folder in folders), TEST_FOLDERS[0])
    by_part = {part: sorted(name for name in files if name.startswith(f"{part}/")) for part in (TRAIN_FOLDER, test)}
    classes = {part: _classes(names, source.path) for part, names in by_part.items()}
    _check(classes, source.path)
    names = sorted(classes[TRAIN_FOLDER])
    number = {name: index for index, name in enumerate(names)}
    total = hashlib.sha256(f"{source.side}\n".encode())
    for name in (*by_part[TRAIN_FOLDER], *by_part[test]):
        total.update(f"{name} {files[name]}\n".encode())
    return Listed(
        train_files=tuple(by_part[TRAIN_FOLDER]),
        train_labels=_labels(by_part[TRAIN_FOLDER], number),
        test_files=tuple(by_part[test]),
        test_labels=_labels(by_part[test], number),
        class_names=tuple(names),
        sha256=total.hexdigest(),
        read=lambda chosen, world: _read(storage, chosen, source, world),
    )


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _classes(names: list[str], path: str) -> set[str]:
    """Return the classes of the images in a part (training or testing). Raise DatasetError for a file that is not an
    image, or not in a class's folder."""
    for name in names:
        if name.count("/") != 2 or not name.lower().endswith(SUFFIXES):
            raise DatasetError(
                f"data set imagefolder: {path}/{name} is no image of a class; allowed are files "
                f"{name.split('/')[0]}/CLASS/NAME that end with {', '.join(SUFFIXES)}"
            )
    return {name.split("/")[1] for name in names}


def _check(classes: dict[str, set[str]], path: str) -> None:
    """Raise DatasetError if the training or testing part is empty, or if the two parts have different classes."""
    empty = [part for part, names in classes.items() if not names]
    if empty:
        raise DatasetError(
            f"data set imagefolder: {path} has no images in {' and none in '.join(empty)}; it should have "
            f"{TRAIN_FOLDER}/CLASS/*.jpg and {TEST_FOLDERS[0]}/CLASS/*.jpg"
        )
    train, test = classes.values()
    alone = sorted(train ^ test)
    if alone:
        raise DatasetError(
            f"data set imagefolder: {path} has classes in one of {' and '.join(classes)} alone: "
            f"{', '.join(alone[:3])}{', …' if len(alone) > 3 else ''}; both should have the same"
        )


def _labels(files: list[str], number: dict[str, int]) -> Labels:
    return np.array([number[name.split("/")[1]] for name in files], np.int32)


def _read(storage: Storage, files: Sequence[str], source: Source, world: int) -> Bytes:
    """Return the images (n, side, side, 3) of these files. Raise DatasetError at the first image that can't be read."""
    side = source.side
    _refuse_too_many(len(files), side, world)
    pixels = np.empty((len(files), side, side, 3), np.uint8)

    def read_image(index: int) -> None:
        pixels[index] = _image(storage, files[index], source)

    with ThreadPoolExecutor(READERS) as pool:
        try:
            for done in [pool.submit(read_image, index) for index in range(len(files))]:
                done.result()
        except DatasetError:
            pool.shutdown(cancel_futures=True)
            raise
    return pixels


def _image(storage: Storage, name: str, source: Source) -> Bytes:
    """Return the image in one file. Raise DatasetError if the image can't be read."""
    what = f"data set imagefolder: {source.path}/{name}"
    try:
        content = storage.read(name)
    except OSError as error:
        raise DatasetError(f"{what} can't be read from storage ({error}); the next `up` retries it") from None
    try:
        return _decoded(content, source.side)
    except Exception as error:  # noqa: BLE001 (TensorFlow raises its own)
        first = (str(error) or type(error).__name__).splitlines()[0]
        reason = first.rpartition("}} ")[2]  # what TensorFlow says after the name of its operation
        raise DatasetError(f"{what} cannot be read as an image ({reason}); replace it, or delete it") from None


def _decoded(content: bytes, side: int) -> Bytes:
    """Return the middle square of an image whose shorter side is resized to `side`."""
    import tensorflow as tf  # heavy, and not needed to list what there is

    image = tf.io.decode_image(content, channels=3, expand_animations=False)
    height, width = image.shape[0], image.shape[1]
    scale = side / min(height, width)
    size = [max(side, round(height * scale)), max(side, round(width * scale))]
    resized = tf.image.resize(image, size, antialias=True)
    top, left = (size[0] - side) // 2, (size[1] - side) // 2
    middle = tf.round(resized[top : top + side, left : left + side])
    return np.asarray(tf.cast(tf.clip_by_value(middle, 0, 255), tf.uint8))


def _refuse_too_many(images: int, side: int, world: int) -> None:
    """Raise DatasetError if the images would not fit into memory: Linux would end the process without a message."""
    shared = 1 if memory_limit() else world  # without a limit of its own it shares this machine with the others
    needed, available = _COPIES * images * side * side * 3, memory_available() // shared
    if needed > available:
        fewer = int(images * available / needed)
        raise DatasetError(
            f"data set imagefolder: a worker's {images} images of {side} pixels a side need {needed / 2**30:.1f} GiB, "
            f"and {available / 2**30:.1f} GiB are free; allowed are about {fewer} for each worker: fewer trainImages, "
            "a smaller imageSize, more workers, or more memory (workerMemory)"
        )
