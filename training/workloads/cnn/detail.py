"""The CNN's part of a result: history and confusion matrix. Data only; standard library only."""

from dataclasses import dataclass

from training.contract.result import TrainingResult

WEIGHTS = "weights.npz"
"""Name of the file in a checkpoint that holds only the model's variables."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the training images."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    train_seconds: float
    """Seconds of the timed steps in this epoch."""
    timed_steps: int
    timed_images: int
    evaluation_seconds: float


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A model file in the run's folder."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class CnnDetail:
    """The data of the CNN's own plots."""

    history: list[Epoch]
    class_names: list[str]
    class_accuracy: list[float | None]
    """Accuracy on the test images of each class; null for a class without test images."""
    confusion_matrix: list[list[int]]
    """Counts of test images; rows are true classes, columns are predicted classes."""
    saved_model: SavedModel | None = None


def detail_of(result: TrainingResult) -> CnnDetail:
    """Return the CNN's detail of a result that was read from a file. Raise TypeError for another workload's."""
    if not isinstance(result.detail, CnnDetail):
        raise TypeError(f"a result of {result.workload} has {type(result.detail).__name__} instead of the CNN's detail")
    return result.detail
