"""What loaders and models of the registry are given. Data only; standard library only."""

from dataclasses import dataclass

SIDE = 32
"""Pixels a side of the images of CIFAR-10, to which those of the other data sets that are built in are made alike."""

TRAIN_FOLDER, TEST_FOLDERS = "train", ("val", "validation", "test")
"""Of a data set of image files: folders of what is trained with, and of what is tested with, of which there is one."""


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: what a loader may use of the recipe."""

    path: str = ""
    """The `datasetPath` setting: a folder, or an address in storage; empty: none."""
    train_images: int = 0
    """How many training images are wanted; 0: all. Longer data sets are shortened after loading."""
    seed: int = 0
    side: int = SIDE
    """Pixels a side, of a data set whose images can have any size."""


@dataclass(frozen=True)
class Share:
    """Which of the training processes one is, and how they divide a step."""

    rank: int = 0
    world: int = 1
    batch: int = 1
    """Images of a step, over all of them."""


@dataclass(frozen=True)
class Shape:
    """What a model is built for."""

    classes: int
    synchronized: bool
    """Batch statistics over all replicas instead of each replica's own."""
    seed: int
    side: int = SIDE
    """Pixels a side of the images."""
