"""Arguments of the registry's loaders and models. Data only; standard library only."""

from dataclasses import dataclass

SIDE = 32
"""Pixels a side of CIFAR-10's images; the images of the other built-in data sets have the same size."""

TRAIN_FOLDER, TEST_FOLDERS = "train", ("val", "validation", "test")
"""Folders of a data set of image files: the one for training, and those for testing, one of which has to exist."""


@dataclass(frozen=True)
class Source:
    """The source of a data set: the part of the recipe that a loader may use."""

    path: str = ""
    """The `datasetPath` setting: a folder, or an address in storage; "" if it is not set."""
    train_images: int = 0
    """Number of training images; 0 for all. Longer data sets are shortened after loading."""
    seed: int = 0
    side: int = SIDE
    """Pixels a side to which images are resized, for a data set whose images can have any size."""


@dataclass(frozen=True)
class Share:
    """The share that a training process has of a step: its rank among the processes, and their common batch."""

    rank: int = 0
    world: int = 1
    batch: int = 1
    """Number of images in a step, over all processes."""


@dataclass(frozen=True)
class Shape:
    """The parameters of a model."""

    classes: int
    synchronized: bool
    """True for batch statistics over all replicas; False for each replica's own."""
    seed: int
    side: int = SIDE
    """Pixels a side of the images."""
