"""A published comparison onto the MLflow server that its settings name, by a process of its own that has a time limit.

A process, because what MLflow's client is told by its environment is for nobody else, and because a server may be slow
in ways that no timeout of a request ends. What is written: `report.tracked`; how: `report.mlflow_client`.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from cli.setup.project import last_line, say
from compare.schema import Comparison
from report.commands import publish_again
from report.errors import ReportError
from report.mlflow_client import Tracked
from report.tracked import KEY, describe
from training.contract.codec import encode

LIMIT_SECONDS = 120
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""MLflow's own would wait minutes for a server that is not there, and tell its makers what is used."""


class TrackingError(ReportError):
    """A measurement could not be sent to the server; says why, and what helps."""


def track(comparison: Comparison, folder: Path, stack: str, project: Path) -> None:
    """Write the comparison that was published in `folder`, and say where it is; nothing where no server is named.

    Nothing is written a second time, and what an earlier call left half is replaced. A server that does not take it is
    a warning: the result is in `folder`, and what is there is a copy.
    """
    if KEY not in comparison.settings:
        return
    tracked = describe(comparison, folder, stack, project)
    try:
        say(f"MLflow: {_write(tracked, LIMIT_SECONDS)}")
    except TrackingError as error:
        say(
            f"warning: the result is whole in {folder}, but not on the MLflow server {tracked.server}: {error}\n"
            f"To write it there:  {publish_again(folder, stack)}"
        )


def _write(tracked: Tracked, limit_seconds: float) -> str:
    if find_spec("mlflow") is None:
        raise TrackingError("MLflow's client is not installed: `uv sync --frozen --inexact --extra tracking`")
    command = [sys.executable, "-m", "report.mlflow_client"]
    try:
        done = subprocess.run(
            command,
            cwd=Path(__file__).resolve().parents[1],
            env=os.environ | ENVIRONMENT,
            input=json.dumps(encode(tracked)),
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TrackingError(f"it took longer than {limit_seconds:g} s") from None
    if done.returncode != 0:
        raise TrackingError(last_line(done.stderr))
    return last_line(done.stdout)
