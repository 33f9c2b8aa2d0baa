"""TensorBoard event files made from results' series, on this machine, for runs of any target. Shows nothing.

Written by tensorboardX, which needs no TensorFlow. A run is a folder, so that the arms lie over each other in a plot.
"""

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it ships no types

from report.plots import ShownRun
from report.series import series
from training.contract.result import TrainingResult

FOLDER = "tensorboard"


def write_event_files(runs: Sequence[ShownRun], folder: Path) -> None:
    """One folder of event files a run; what an earlier call wrote there is replaced."""
    for run in runs:
        shutil.rmtree(folder / run.name, ignore_errors=True)
        with SummaryWriter(str(folder / run.name)) as writer:
            _write(writer, run.result)


def _write(writer: SummaryWriter, result: TrainingResult) -> None:
    """Scalars by epoch. Wall times are training's own, so that TensorBoard's `relative` axis shows training seconds."""
    for each in series(result):
        writer.add_scalar(each.name, each.value, each.step, walltime=each.at)
    ended = datetime.fromisoformat(result.started_at).timestamp() + result.seconds.wall
    for tag, total in _totals(result):
        writer.add_scalar(tag, total, result.epochs_completed, walltime=ended)
    recipe = "\n".join(f"| {key} | {value} |" for key, value in result.recipe.items())
    writer.add_text("recipe", f"| setting | value |\n|---|---|\n{recipe}", result.epochs_completed, walltime=ended)


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
