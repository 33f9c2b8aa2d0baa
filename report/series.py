"""The course of a run, from its result: a value for each epoch, and each that a script reported. Writes nothing.

TensorBoard's event files and an MLflow server get the same of it, under the same names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from training.contract.result import TrainingResult
from training.workloads.cnn.detail import CnnDetail, Epoch


@dataclass(frozen=True)
class Value:
    """One point of a curve of a run: a named value at a step and a time."""

    name: str
    """Name of the curve. Viewers group curves by the part of the name before the slash."""
    value: float
    step: int
    """The number of the epoch or of the report, counted from 1; 0 for a number of the whole run."""
    at: float
    """Time of the point, in seconds since 1970."""


def elapsed(result: TrainingResult) -> list[float]:
    """Return training seconds at the end of each epoch; warm-up steps count as the mean timed step."""
    return [point.seconds or 0.0 for point in result.curve]


def series(result: TrainingResult) -> Iterator[Value]:
    """Yield the points of a run's curves: the values of each epoch, and the values that a script reported. The times of
    epochs count only the time of steps; the times of reports are those at which the reports were made."""
    started = datetime.fromisoformat(result.started_at).timestamp()
    if isinstance(result.detail, CnnDetail):  # no other workload has a history
        began = started + (result.seconds.startup or 0.0)
        for epoch, seconds in zip(result.detail.history, elapsed(result), strict=True):
            yield from (Value(name, value, epoch.epoch, began + seconds) for name, value in _of_epoch(epoch))
    for name, points in result.reported.items():
        for number, point in enumerate(points, start=1):
            yield Value(f"reported/{name}", point.value, number, started + point.seconds)


def _of_epoch(epoch: Epoch) -> Iterator[tuple[str, float]]:
    yield "loss/training", epoch.loss
    yield "loss/validation", epoch.validation_loss
    yield "accuracy/training", epoch.accuracy
    yield "accuracy/validation", epoch.validation_accuracy
    yield "learning_rate", epoch.learning_rate
    if epoch.timed_steps:
        yield "speed/images_per_second", epoch.timed_images / epoch.train_seconds
