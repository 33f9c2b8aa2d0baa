"""`rwi report tensorboard`: a result's curves in TensorBoard, which is installed when it is first wanted.

Event files are written by tensorboardX, which needs no TensorFlow, on this machine, for runs of any target. A run is a
folder, so that the arms lie over each other in a plot.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it ships no types

from cli.setup import bootstrap
from cli.setup.project import ROOT
from report import html, terminal
from report.errors import ShowError
from report.links import run_files
from report.plots import ShownRun
from report.series import series
from report.stored import choose, stored_results
from training.contract.result import TrainingResult
from training.machine.command_line import rwi

FOLDER = "tensorboard"


def show(stack: str, wanted: str, arguments: list[str], *, path_only: bool) -> int:
    """Show the curves of a result in TensorBoard, or print the folder of the event files. Return the exit status."""
    folder = tensorboard_folder(ROOT, stack, wanted)
    if path_only:
        terminal.write(str(folder))
        return 0
    return start_tensorboard(folder, arguments)


def tensorboard_folder(project: Path, stack: str, wanted: str) -> Path:
    """Write event files for the runs of a result, and return their folder, which TensorBoard takes."""
    result = choose(stored_results(project, stack)[0], wanted, stack)
    runs = html.shown_runs(run_files(result.comparison, project), project)
    if not runs:
        raise ShowError(
            f"{result.name}: its runs are gone from runs/, and their histories with them: `{rwi('up', stack)}`"
        )
    folder = result.folder / FOLDER
    write_event_files(runs, folder)
    return folder


def start_tensorboard(folder: Path, arguments: list[str]) -> int:
    """Run TensorBoard, which is installed if it is missing, on a folder until Ctrl-C. Return its exit status."""
    program = _find_tensorboard()
    if program is None:
        bootstrap.ensure("tensorboard")
        program = _find_tensorboard()
    if program is None:
        raise ShowError(
            f"the event files are written ({folder}), but tensorboard is not on PATH, and it is not installed where"
            f" {bootstrap.SWITCH} is no"
        )
    return subprocess.run([program, "--logdir", str(folder), *arguments], check=False).returncode


def _find_tensorboard() -> str | None:
    beside = Path(sys.executable).parent / "tensorboard"
    return str(beside) if beside.is_file() else shutil.which("tensorboard")


def write_event_files(runs: Sequence[ShownRun], folder: Path) -> None:
    """Write a folder of event files for each run, and replace the files of an earlier call."""
    for run in runs:
        shutil.rmtree(folder / run.name, ignore_errors=True)
        with SummaryWriter(str(folder / run.name)) as writer:
            _write(writer, run.result)


def _write(writer: SummaryWriter, result: TrainingResult) -> None:
    """Write the values of each epoch with the time at which they arose in training, so that TensorBoard's `relative`
    axis shows training seconds."""
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
