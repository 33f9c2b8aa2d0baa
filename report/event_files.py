"""TensorBoard event files made from results' histories, on this machine, for runs of any target. Shows nothing.

Written by tensorboardX, which needs no TensorFlow. A run is a folder, so that the arms lie over each other in a plot.
"""

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it ships no types

from report.plots import ShownRun, elapsed
from training.contract.result import TrainingResult
from training.workloads.cnn.detail import CnnDetail, Epoch

FOLDER = "tensorboard"


def write_event_files(runs: Sequence[ShownRun], folder: Path) -> None:
    """One folder of event files a run; what an earlier call wrote there is replaced."""
    for run in runs:
        shutil.rmtree(folder / run.name, ignore_errors=True)
        with SummaryWriter(str(folder / run.name)) as writer:
            _write(writer, run.result)


def _write(writer: SummaryWriter, result: TrainingResult) -> None:
    """Scalars by epoch. Wall times are training's own, so that TensorBoard's `relative` axis shows training seconds."""
    began = datetime.fromisoformat(result.started_at).timestamp() + (result.seconds.startup or 0.0)
    for epoch, seconds in _epochs(result):
        for tag, value in _scalars(epoch):
            writer.add_scalar(tag, value, epoch.epoch, walltime=began + seconds)
    for name, points in result.reported.items():
        for number, point in enumerate(points, start=1):
            at = datetime.fromisoformat(result.started_at).timestamp() + point.seconds
            writer.add_scalar(f"reported/{name}", point.value, number, walltime=at)
    ended = began + result.seconds.wall - (result.seconds.startup or 0.0)
    for tag, total in _totals(result):
        writer.add_scalar(tag, total, result.epochs_completed, walltime=ended)
    recipe = "\n".join(f"| {key} | {value} |" for key, value in result.recipe.items())
    writer.add_text("recipe", f"| setting | value |\n|---|---|\n{recipe}", result.epochs_completed, walltime=ended)


def _epochs(result: TrainingResult) -> Iterator[tuple[Epoch, float]]:
    """Those of the CNN, with the training seconds until their ends; no other workload has a history."""
    if isinstance(result.detail, CnnDetail):
        yield from zip(result.detail.history, elapsed(result), strict=True)


def _scalars(epoch: Epoch) -> Iterator[tuple[str, float]]:
    """Names are those that TensorBoard groups: before the slash the plot's group, after it the line's title."""
    yield "loss/training", epoch.loss
    yield "loss/validation", epoch.validation_loss
    yield "accuracy/training", epoch.accuracy
    yield "accuracy/validation", epoch.validation_accuracy
    yield "learning_rate", epoch.learning_rate
    if epoch.timed_steps:
        yield "speed/images_per_second", epoch.timed_images / epoch.train_seconds


def _totals(result: TrainingResult) -> Iterator[tuple[str, float]]:
    for name, tag in (("testLoss", "loss/test"), ("testAccuracy", "accuracy/test")):
        if (score := result.scores.get(name)) is not None:
            yield tag, score
    for name, seconds in (
        ("startup", result.seconds.startup),
        ("training", result.seconds.train),
        ("evaluation", result.seconds.evaluation),
    ):
        if seconds is not None:
            yield f"seconds/{name}", seconds
    yield "seconds/end_to_end", result.seconds.wall
