"""Writes a measurement to an MLflow server: `python -m report.mlflow_client`, a process that `report.tracking` starts.

Reads a `Tracked` as JSON on stdin, prints the address of the measurement's run, and fails with one line that says why.
Decides nothing of what is written.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from report.series import Value
from training.contract.codec import decode
from training.machine.command_line import again

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

MEASUREMENT, COMPARISON, PARENT = "measurement", "comparison", "mlflow.parentRunId"
"""Tags by which the runs on the server are found again."""
FINISHED = "FINISHED"
_MOST = 5000
"""The most runs that the server is asked for at a time. A measurement may have 100 repeats of each arm."""
_NAME = re.compile(r"[^\w.\-: /]", re.ASCII)
_LONGEST_ANSWER = 300
_LET_IN = (
    "`export MLFLOW_TRACKING_USERNAME=… MLFLOW_TRACKING_PASSWORD=…`, or `MLFLOW_TRACKING_TOKEN=…`, with what it takes"
)


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run of MLflow, with all that is written of it."""

    name: str
    started: float
    """Start of the run in seconds since 1970. `ended` has the same unit."""
    ended: float
    tags: dict[str, str]
    params: dict[str, str]
    metrics: list[Value]


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """A measurement, and the server and experiment to which it is written."""

    server: str
    experiment: str
    measurement: str
    """Hash of the measurement. It is the same for the same runs, however often and in whatever way the runs are
    compared."""
    comparison: str
    """SHA-256 of the comparison. If the server has another comparison of these runs, that comparison is replaced."""
    whole: TrackedRun
    runs: list[TrackedRun]
    files: list[str]
    """Absolute paths of the files that are sent."""


def write(tracked: Tracked) -> str:
    """Write the measurement, so that the server has it completely, and once. Return the address of its run there."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracked.server)
    experiment = _experiment(client, tracked.experiment)
    earlier = _runs_with_tag(client, experiment, MEASUREMENT, tracked.measurement)
    kept = next((run.info.run_id for run in earlier if _is_whole(run, tracked)), None)
    run_id = kept or _write_new(client, experiment, tracked)
    for run in earlier:
        if run.info.run_id != run_id:
            _delete(client, experiment, run.info.run_id)
    return f"{tracked.server}/#/experiments/{experiment}/runs/{run_id}"


def _experiment(client: "MlflowClient", name: str) -> str:
    existing = client.get_experiment_by_name(name)
    return str(existing.experiment_id if existing else client.create_experiment(name))


def _runs_with_tag(client: "MlflowClient", experiment: str, tag: str, value: str) -> "list[Run]":
    return list(client.search_runs([experiment], f"tags.`{tag}` = '{value}'", max_results=_MOST))


def _is_whole(run: "Run", tracked: Tracked) -> bool:
    """Return whether a run on the server is of this comparison and complete: it is ended when all is written."""
    return bool(run.info.status == FINISHED and run.data.tags.get(COMPARISON) == tracked.comparison)


def _write_new(client: "MlflowClient", experiment: str, tracked: Tracked) -> str:
    """Create a run for the measurement, with those of the arms inside, end it after that, and return its id."""
    own = {MEASUREMENT: tracked.measurement, COMPARISON: tracked.comparison}
    run_id, artifacts = _begin(client, experiment, tracked.whole, own)
    for run in tracked.runs:
        inner, _ = _begin(client, experiment, run, {PARENT: run_id})
        _end(client, inner, run)
    _log_files(client, run_id, artifacts, tracked.files)
    _end(client, run_id, tracked.whole)
    return run_id


def _begin(client: "MlflowClient", experiment: str, run: TrackedRun, tags: Mapping[str, str]) -> tuple[str, str]:
    """Create a run with everything but its files. Return the run's id, and the address to which its files go."""
    from mlflow.entities import Metric, Param

    named = {_name(key): value for key, value in run.tags.items()}
    created_run = client.create_run(experiment, _milliseconds(run.started), {**named, **tags}, run.name).info
    metrics = [Metric(_name(each.name), each.value, _milliseconds(each.at), each.step) for each in run.metrics]
    params = [Param(_name(key), value) for key, value in run.params.items()]
    client.log_batch(created_run.run_id, metrics, params, synchronous=True)
    return str(created_run.run_id), str(created_run.artifact_uri)


def _end(client: "MlflowClient", run_id: str, run: TrackedRun) -> None:
    client.set_terminated(run_id, FINISHED, _milliseconds(run.ended))


def _log_files(client: "MlflowClient", run_id: str, store: str, files: list[str]) -> None:
    """Send the files to the server. Nothing is sent if the server stores files at a path on its own disk, because the
    client would write to that path on this machine."""
    if urlsplit(store).scheme in ("", "file"):
        return
    for path in files:
        client.log_artifact(run_id, path)


def _delete(client: "MlflowClient", experiment: str, run_id: str) -> None:
    """Delete a run after those inside it, because these can be listed only while the outer run exists."""
    for run in _runs_with_tag(client, experiment, PARENT, run_id):
        client.delete_run(run.info.run_id)
    client.delete_run(run_id)


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _name(text: str) -> str:
    """Return the text as a name that MLflow allows, because a script may name its metrics in any way."""
    return _NAME.sub("_", text)[:250]


def explain(error: Exception) -> str:
    """Return in one line what is wrong with the server, and what helps."""
    from mlflow.exceptions import MlflowException
    from requests import exceptions

    causes = list(_causes(error))
    if any(isinstance(cause, exceptions.SSLError) for cause in causes):
        return (
            f"its certificate is not trusted: `export MLFLOW_TRACKING_SERVER_CERT_PATH=its/ca.pem` ({_answer(error)})"
        )
    if any(isinstance(cause, exceptions.ConnectionError | exceptions.Timeout) for cause in causes):
        return f"it does not answer ({_answer(causes[-1])})"
    status = error.get_http_status_code() if isinstance(error, MlflowException) else _status(error)
    if status == 401:
        return f"it asks for a user or a token, and takes none of yours: {_LET_IN}"
    if status == 403:
        return f"its user may not write there: {_LET_IN} ({_answer(error)})"
    if (status == 404 and "RESOURCE_DOES_NOT_EXIST" not in str(error)) or "valid JSON" in str(error):
        set_it = "pulumi config set trackingUri …"
        return f"it answers, but not as MLflow does: `{set_it}`, then `{again('up')}` ({_answer(error)})"
    return f"it says: {_answer(error)}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: Any) -> int | None:
    """Return the HTTP status of the server's answer to an upload; None if there was no answer."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _answer(error: BaseException) -> str:
    """Return an error's text on one line."""
    text = " ".join(str(error).split())
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}…"


def main() -> int:
    """Write the measurement that stdin holds and print its address. Return 0 if that succeeded, else 1."""
    tracked = decode(Tracked, json.load(sys.stdin), "tracked")
    try:
        print(write(tracked))
    except Exception as error:  # noqa: BLE001 (a client with many dependencies: whatever it raises is said in a line)
        print(explain(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
