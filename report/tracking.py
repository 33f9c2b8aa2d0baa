"""A published comparison onto the MLflow server that its settings name, by a process of its own that has a time limit.

The server gets a run for the measurement, and inside it one for each run of an arm, made from the comparison and the
runs' result files. The process (`report.mlflow_client`) has environment variables that nothing else should see, and its
limit ends what no timeout of a request would end.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cli.setup.project import last_line, project_name, say
from compare.run_numbers import whole_seconds
from compare.schema import Comparison, Estimate, RunLink
from report import links
from report.errors import ReportError
from report.mlflow_client import Tracked, TrackedRun
from report.publish import TEXT
from report.series import Value, series
from report.stored import COMPARISON, PAGE, publish_again
from training.contract.arms import RAY
from training.contract.codec import ResultError, encode
from training.contract.recipe import canonical
from training.contract.result import TrainingResult, read
from training.contract.workload import named

KEY = "trackingUri"
"""The setting with the address of the server. A comparison has it among the settings of its measurement."""
FILES = (COMPARISON, TEXT, PAGE)
"""Files of a published result that the server gets as artifacts."""
_SECONDS = ("startup", "train", "warmup", "validation", "evaluation", "report", "checkpoint", "probe")
LIMIT_SECONDS = 120
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Environment of the process that talks to the server. With its own defaults MLflow's client would wait minutes for a
server that does not exist, and report its use to its makers."""


class TrackingError(ReportError):
    """A measurement could not be sent to the server. The message says why, and what helps."""


def track(comparison: Comparison, folder: Path, stack: str, project: Path) -> None:
    """Write the comparison that was published in `folder` to the server, and print its address there. Do nothing if the
    settings name no server.

    Nothing is written twice, and what an interrupted call left is replaced. If the server refuses the comparison, only
    a warning is printed: the result is in `folder`, and the server has only a copy.
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


def describe(comparison: Comparison, folder: Path, stack: str, project: Path) -> Tracked:
    """Return what the server gets of a comparison that was published in `folder`, whose settings name a server."""
    shas = sorted({link.sha256 for _, link in _links(comparison)})
    return Tracked(
        server=comparison.settings[KEY].rstrip("/"),
        experiment=f"{project_name()}/{stack}",
        measurement=hashlib.sha256("\n".join(shas).encode()).hexdigest(),
        comparison=hashlib.sha256(comparison.to_json().encode()).hexdigest(),
        whole=_whole(comparison, folder),
        runs=[_run(arm, link, project) for arm, link in _links(comparison)],
        files=[str(folder / name) for name in FILES],
    )


def _links(comparison: Comparison) -> Iterator[tuple[str, RunLink]]:
    """Yield every compared run once, with its arm, including the runs of a workers' curve."""
    of_arms = [(name, link) for name in comparison.shown_arms() for link in comparison.arms[name].runs]
    points = comparison.workers_curve.points if comparison.workers_curve else []
    of_curve = [(RAY.name, link) for point in points for link in point.runs]
    yield from {link.path: (arm, link) for arm, link in of_arms + of_curve}.values()


def _whole(comparison: Comparison, folder: Path) -> TrackedRun:
    spans = [(_started(link), _ended(link)) for _, link in _links(comparison)]
    ended = max(end for _, end in spans)
    return TrackedRun(
        name=folder.name,
        started=min(start for start, _ in spans),
        ended=ended,
        tags={
            "mlflow.note.content": comparison.verdict,
            "answer": comparison.answer,
            "claim": comparison.claim or "none",
        },
        params=_texts(comparison.recipe | {key: text for key, text in comparison.settings.items() if key != KEY}),
        metrics=[Value(name, value, 0, ended) for name, value in _numbers(comparison)],
    )


def _numbers(comparison: Comparison) -> Iterator[tuple[str, float]]:
    """Yield the ratios with their intervals, and the medians of each arm, as pairs of a name and a number. Numbers that
    were not measured are left out instead of given as 0."""
    for name, ratio in comparison.ratios.items():
        if ratio:
            yield from _interval(name, ratio)
    if comparison.break_even_epochs is not None:
        yield "breakEvenEpochs", comparison.break_even_epochs
    if search := comparison.search:
        numbers = {"breakEvenTrialSeconds": search.break_even_trial_seconds, "bestMetric": search.best_metric}
        yield from ((name, value) for name, value in numbers.items() if value is not None)
    for arm, summary in comparison.arms.items():
        for name, spread in summary.measures.items():
            if spread:
                yield f"{arm}/{name}", spread.median
        for part, seconds in summary.step_parts.parts.items() if summary.step_parts else ():
            yield f"{arm}/step/{part}Seconds", seconds


def _interval(name: str, ratio: Estimate) -> Iterator[tuple[str, float]]:
    yield name, ratio.median
    if ratio.lower is not None and ratio.upper is not None:
        yield f"{name}.lower", ratio.lower
        yield f"{name}.upper", ratio.upper


def _run(arm: str, link: RunLink, project: Path) -> TrackedRun:
    state = links.state(link, project)
    result = _read(project / link.path) if state == "present" else None
    run_params = {"arm": arm, "repeat": link.repeat, "seed": link.seed}
    return TrackedRun(
        name=link.name,
        started=_started(link),
        ended=_ended(link),
        tags={"arm": arm, "resultFile": state},
        params=_texts((result.recipe if result else {}) | run_params),
        metrics=[*_totals(result, _ended(link)), *series(result)] if result else [],
    )


def _read(path: Path) -> TrainingResult | None:
    try:
        return read(path)
    except ResultError:
        return None


def _totals(result: TrainingResult, ended: float) -> list[Value]:
    """Return the numbers of the whole run, with the names that the comparison uses."""
    seconds = {f"{part}Seconds": getattr(result.seconds, part) for part in _SECONDS}
    steps = result.steps.seconds
    pace = {"stepSecondsMean": steps.mean, "stepSecondsP50": steps.p50, "stepSecondsP95": steps.p95} if steps else {}
    speed = {f"{named(result.workload).unit}PerSecond": result.amount.per_second}
    numbers = {"wallSeconds": whole_seconds(result), **seconds, **pace, **speed, **result.scores}
    return [Value(name, value, 0, ended) for name, value in numbers.items() if value is not None]


def _started(link: RunLink) -> float:
    return datetime.fromisoformat(link.started_at).timestamp()


def _ended(link: RunLink) -> float:
    return _started(link) + link.wall_seconds


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as texts, because MLflow's parameters are texts. Values that are None or "" are left out."""
    return {key: _text(value) for key, value in values.items() if value not in (None, "")}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else canonical(value)
