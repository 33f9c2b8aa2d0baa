"""Arguments of the registry's loaders and models. Data only; standard library only."""

from dataclasses import dataclass

SIDE = 32
"""Pixels a side of the images of CIFAR-10, to which those of the other data sets that are built in are made alike."""

TRAIN_FOLDER, TEST_FOLDERS = "train", ("val", "validation", "test")
"""Folders of a data set of image files: for training, and for testing, of which there has to be one."""


@dataclass(frozen=True)
class Source:
    """The source of a data set: the part of the recipe that a loader may use."""

    path: str = ""
    """The `datasetPath` setting: a folder, or an address in storage; "" if it is not set."""
    train_images: int = 0
    """Number of training images; 0 for all. Longer data sets are shortened after loading."""
    seed: int = 0
    side: int = SIDE
    """Pixels a side, of a data set whose images can have any size."""


@dataclass(frozen=True)
class Share:
    """A training process's share of a step: its rank among the others, and their batch."""

    rank: int = 0
    world: int = 1
    batch: int = 1
    """Images of a step, over all of them."""


@dataclass(frozen=True)
class Shape:
    """The parameters of a model."""

    classes: int
    synchronized: bool
    """Batch statistics over all replicas instead of each replica's own."""
    seed: int
    side: int = SIDE
    """Pixels a side of the images."""
