"""`make report TENSORBOARD=1`: a result's curves in TensorBoard, which is installed when it is first wanted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from report import html
from report.errors import ShowError
from report.event_files import FOLDER, write_event_files
from report.links import run_files
from report.stored import choose, stored_results
from tools.setup import uv
from tools.setup.project import ROOT, VENV


def tensorboard_folder(project: Path, stack: str, wanted: str) -> Path:
    """Write event files for the runs of a result; the folder to give to TensorBoard."""
    result = choose(stored_results(project, stack)[0], wanted, stack)
    runs = html.shown_runs(run_files(result.comparison, project), project)
    if not runs:
        raise ShowError(
            f"{result.name}: its runs are gone from runs/, and their histories with them: run `make up` again"
        )
    folder = result.folder / FOLDER
    write_event_files(runs, folder)
    return folder


def start_tensorboard(folder: Path, arguments: list[str]) -> int:
    """Run TensorBoard on a folder until Ctrl-C; its exit status. Where it is missing, it is installed first."""
    program = _find_tensorboard()
    if program is None:
        _install_tensorboard()
        program = _find_tensorboard()
    if program is None:
        raise ShowError(
            f"the event files are written ({folder}), but tensorboard could not be installed: "
            "`uv sync --frozen --inexact --group tensorboard`"
        )
    return subprocess.run([program, "--logdir", str(folder), *arguments], check=False).returncode


def _find_tensorboard() -> str | None:
    beside = Path(sys.executable).parent / "tensorboard"
    return str(beside) if beside.is_file() else shutil.which("tensorboard")


def _install_tensorboard() -> None:
    """Install the version of uv.lock into the project's environment, on demand, since no measurement needs a viewer."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    command = [str(uv.find_uv()), "sync", "--frozen", "--inexact", "--group", "tensorboard"]
    subprocess.run(command, cwd=ROOT, env=environment | {"UV_PROJECT_ENVIRONMENT": str(VENV)}, check=False)
