"""What loaders and models of the registry are given. Data only; standard library only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: what a loader may use of the recipe."""

    path: str = ""
    """The `datasetPath` setting; empty: none."""
    train_images: int = 0
    """How many training images are wanted; 0: all. Longer data sets are shortened after loading."""
    seed: int = 0


@dataclass(frozen=True)
class Shape:
    """What a model is built for."""

    classes: int
    synchronized: bool
    """Batch statistics over all replicas instead of each replica's own."""
    seed: int
