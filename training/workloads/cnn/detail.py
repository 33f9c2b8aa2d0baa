"""The CNN's part of a result: history and confusion matrix. Data only; standard library only."""

from dataclasses import dataclass

from training.contract.result import TrainingResult

WEIGHTS = "weights.npz"
"""The file of a checkpoint with the model's variables alone."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the training images. Seconds exclude warm-up steps in `train_seconds` and are null if all were."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    train_seconds: float
    """Timed steps of this epoch alone."""
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
    """Data of the CNN's own pictures."""

    history: list[Epoch]
    class_names: list[str]
    class_accuracy: list[float | None]
    """Null for a class without test images."""
    confusion_matrix: list[list[int]]
    """Rows: true class; columns: predicted."""
    saved_model: SavedModel | None = None


def detail_of(result: TrainingResult) -> CnnDetail:
    """Return the detail of a run of the CNN that was read from its file; raises TypeError for any other."""
    if not isinstance(result.detail, CnnDetail):
        raise TypeError(f"a result of {result.workload} has {type(result.detail).__name__} instead of the CNN's detail")
    return result.detail
