"""The data sets and models that a recipe can name. Standard library only: an entry imports what it needs inside itself.

To add one, write a single function here, decorated with `@dataset` or `@model`: CONTRIBUTING shows both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training.workloads.cnn.shapes import Shape, Source

if TYPE_CHECKING:
    from training.workloads.cnn.sources import Images, Listed


SYNTHETIC_IMAGES = 2560
"""Training images of `synthetic` if `trainImages` is not set."""


Loader = Callable[[Source], "Images | Listed"]
"""Function that loads a whole data set, or lists its files. It raises DatasetError if it can't."""


@dataclass(frozen=True)
class DatasetEntry:
    """A data set with its name and loader. `train_images` is the number of training images, validation included, if the
    setting `trainImages` is 0. It is 0 if the number is known only when the data set is loaded. Of a data set of files,
    each process reads its own part."""

    name: str
    load: Loader
    train_images: int
    any_size: bool
    """True if the data set has as many images as `trainImages` asks for."""
    any_side: bool
    """True if the data set's images are resized to `imageSize`."""
    fetch: Callable[[Source], None] | None = None
    """Function that downloads what is missing, because a run on this machine reaches no network
    (`training.machine.isolation`)."""


@dataclass(frozen=True)
class ModelEntry:
    """A model with its name; `build` returns a Keras model from images of floats to one logit for each class."""

    name: str
    build: Callable[[Shape], Any]


DATASETS: dict[str, DatasetEntry] = {}
MODELS: dict[str, ModelEntry] = {}


def dataset(
    name: str,
    *,
    train_images: int,
    any_size: bool = False,
    any_side: bool = False,
    fetch: Callable[[Source], None] | None = None,
) -> Callable[[Loader], Loader]:
    """Return a decorator that registers a loader under `name`."""

    def register(load: Loader) -> Loader:
        DATASETS[name] = DatasetEntry(name, load, train_images, any_size, any_side, fetch)
        return load

    return register


def model(name: str) -> Callable[[Callable[[Shape], Any]], Callable[[Shape], Any]]:
    """Return a decorator that registers a model under `name`."""

    def register(build: Callable[[Shape], Any]) -> Callable[[Shape], Any]:
        MODELS[name] = ModelEntry(name, build)
        return build

    return register


@dataset("digits", train_images=1437)
def digits(_: Source) -> Images:
    """Return 1,797 handwritten digits, 8×8 grey, enlarged to 32×32×3; every fifth is for testing.

    Source: the test set of UCI "Optical Recognition of Handwritten Digits", as in `sklearn.datasets.load_digits`.
    """
    from training.workloads.cnn.sources import load_digits

    return load_digits()


def fetch_cifar10(source: Source) -> None:
    """Download CIFAR-10 into Keras' cache unless `datasetPath` names a folder."""
    from training.workloads.cnn.sources import download_cifar10

    if not source.path:
        download_cifar10()


@dataset("cifar10", train_images=50_000, fetch=fetch_cifar10)
def cifar10(source: Source) -> Images:
    """Return CIFAR-10, from `datasetPath` or downloaded: 50,000 training, 10,000 test images (Krizhevsky 2009)."""
    from training.workloads.cnn.sources import load_cifar10

    return load_cifar10(source.path)


@dataset("synthetic", train_images=SYNTHETIC_IMAGES, any_size=True)
def synthetic(source: Source) -> Images:
    """Return any number of synthetic images like CIFAR's, of 10 learnable classes, drawn from a fixed seed."""
    from training.workloads.cnn.sources import make_synthetic

    return make_synthetic(source.train_images or SYNTHETIC_IMAGES, source.seed)


@dataset("imagefolder", train_images=0, any_side=True)
def imagefolder(source: Source) -> Listed:
    """Return the images `train/CLASS/*.jpg` and `val/CLASS/*.jpg`, ImageNet's layout, of a folder or storage."""
    from training.workloads.cnn.imagefolder import listed

    return listed(source)


@model("cnn")
def cnn(shape: Shape) -> Any:
    """Return the exercise's CNN, 3.25 M parameters: three blocks of two 3×3 convolutions (64, 128, 256), dense 512."""
    from training.workloads.cnn.model import build_cnn

    return build_cnn(64, shape)


@model("cnn-half")
def cnn_half(shape: Shape) -> Any:
    """Return the exercise's CNN at half the width: a quarter of the parameters, about a third of the work."""
    from training.workloads.cnn.model import build_cnn

    return build_cnn(32, shape)


@model("cnn-double")
def cnn_double(shape: Shape) -> Any:
    """Return the exercise's CNN at twice the width: four times the parameters, three to four times the work."""
    from training.workloads.cnn.model import build_cnn

    return build_cnn(128, shape)


@model("resnet50")
def resnet50(shape: Shape) -> Any:
    """Return ResNet-50, 25.6 M parameters with 1000 classes, for images from 64 pixels a side (He et al. 2015)."""
    from training.workloads.cnn.model import build_resnet50

    return build_resnet50(shape)
