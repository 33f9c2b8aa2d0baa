"""What one process has done so far, and how it is written: one JSON file, at the end of the training."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "TRAINING_OBSERVE"
"""Environment variable: the folder that observations are written into."""
STEPS = "TRAINING_OBSERVE_STEPS"
"""Environment variable: every rank ends after so many steps; 0 or absent: with the script."""
CLUSTER = "TRAINING_CLUSTER"
"""Environment variable: the addresses of all ranks and which of them this one is, where no framework's own says it."""
MOST_ROWS = 50_000_000
"""Of a data set whose rows are marked one by one, a byte each while the process lives."""
_lock = threading.Lock()


class Enough(SystemExit):
    """Ends a rank after the wanted number of steps: `finally` blocks run, and the exit code is 0."""


class Loader:
    """The rows of one data set that reached the script, in the order of its passes."""

    def __init__(self, dataset_rows: int | None, epoch_rows: int | None, epoch_batches: int | None) -> None:
        self.dataset_rows = dataset_rows
        self.epoch_rows = epoch_rows
        self.epoch_batches = epoch_batches
        self.rows = 0
        self.rows_at_step: list[int] = []
        """Delivered up to the end of each step that this data set was read for."""
        self.passes = 0
        self.numbered = dataset_rows is not None and dataset_rows <= MOST_ROWS
        self.first_pass = bytearray(dataset_rows if self.numbered and dataset_rows else 0)

    def deliver(self, rows: int, numbers: list[int] | None) -> None:
        """A batch of so many rows; their numbers in the data set, where they have some."""
        self.rows += rows
        if numbers is None:
            self.numbered = False
        elif self.numbered and self.passes <= 1:
            for number in numbers:
                self.first_pass[number] = 1


class State:
    """What this process has done."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.began = time.time()
        self.step_ends: list[float] = []
        self.loaders: dict[int, Loader] = {}
        self.read: list[Loader] = []
        self.read_for_next = True
        self.clock_of: int | None = None
        self.rank, self.world = rank_of_environment()
        self.threads: int | None = None
        self.framework: str | None = None
        self.rows_per_step: int | None = None
        self.epoch_steps: int | None = None
        self.weights: Callable[[], str | None] = lambda: None
        self.learning_rate: Callable[[], Any] = lambda: None
        self.first_learning_rate: float | None = None
        self.metrics: dict[str, float] = {}
        self.metric_points: list[tuple[float, str, float]] = []
        self.reports = 0
        self.report_seconds = 0.0
        self.hook_seconds = 0.0
        self.ended_early = False
        self.notes: list[str] = []
        self.written = False

    def deliver(self, loader: Loader) -> None:
        """`loader` has delivered a batch that the next step may be made of."""
        if self.read_for_next:
            self.read, self.read_for_next = [], False
        if loader not in self.read:
            self.read.append(loader)

    def step(self, clock: int) -> bool:
        """Count a step of the optimizer (or model) `clock`, the first of them alone; true if it was counted."""
        if self.clock_of is None:
            self.clock_of = clock
            _write_at_end()
        if clock != self.clock_of:
            return False
        if not self.step_ends:
            self.first_learning_rate = _number(self.learning_rate)
        self.step_ends.append(time.monotonic())
        for loader in self.read:  # several: a validation comes between steps, or there are two sets to learn from
            loader.rows_at_step.append(loader.rows)
        self.read_for_next = True
        return True

    def measured(self, name: str, value: float) -> None:
        """The script says how well it does."""
        self.metrics[name] = value
        self.metric_points.append((time.monotonic(), name, value))

    def is_enough(self) -> bool:
        """Whether this process has done the steps that are wanted; what it did is written then."""
        wanted = int(os.environ.get(STEPS) or 0)
        self.ended_early = bool(wanted) and len(self.step_ends) >= wanted
        if self.ended_early:
            write()
        return self.ended_early

    def to_dict(self) -> dict[str, Any]:
        """Plain data, camelCase, units in names; what is not known is null."""
        loader = max(self.loaders.values(), key=lambda one: len(one.rows_at_step), default=None)
        known = loader is not None and len(loader.rows_at_step) > 0
        return {
            "pid": self.pid,
            "rank": self.rank,
            "world": self.world,
            "framework": self.framework,
            "threads": self.threads,
            "startSeconds": self.began,
            "stepEnds": self.step_ends,
            "clockOffset": time.time() - time.monotonic(),
            "rowsAtStep": loader.rows_at_step if known and loader else None,
            "rowsPerStepReported": self.rows_per_step,
            "datasetRows": loader.dataset_rows if known and loader else None,
            "epochRows": loader.epoch_rows if known and loader else None,
            "epochBatches": loader.epoch_batches if known and loader else self.epoch_steps,
            "firstPassRows": _packed(loader.first_pass) if known and loader and loader.numbered else None,
            "weights": self.weights(),
            "learningRates": [self.first_learning_rate, _number(self.learning_rate)],
            "metrics": self.metrics,
            "metricPoints": self.metric_points,
            "reports": self.reports,
            "reportSeconds": self.report_seconds,
            "hookSeconds": self.hook_seconds,
            "peakMemoryBytes": peak_memory_bytes(),
            "endedEarly": self.ended_early,
            "notes": self.notes,
        }


def rank_of_environment() -> tuple[int, int]:
    """Rank and world as TF_CONFIG, CLUSTER or torchrun's variables have them; 0 of 1 without."""
    if "TF_CONFIG" in os.environ:
        try:
            config = json.loads(os.environ["TF_CONFIG"])
            return int(config["task"]["index"]), len(config["cluster"]["worker"])
        except (ValueError, KeyError, TypeError):
            return 0, 1
    told = cluster()
    if told:
        return told["rank"], len(told["addresses"])
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def peak_memory_bytes() -> int | None:
    """The most memory that this process had resident; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _number(ask: Callable[[], Any]) -> float | None:
    """What is asked for as a number; None where it is none, or can't be asked for now."""
    try:
        return float(ask())
    except Exception:  # noqa: BLE001 (of a framework that has it as something else)
        return None


def cluster() -> dict[str, Any] | None:
    """All ranks' addresses, this one's rank, and XGBoost's tracker; None where nothing is told by CLUSTER."""
    return json.loads(os.environ[CLUSTER]) if CLUSTER in os.environ else None


def _packed(marks: bytearray) -> str:
    """A byte a row, 0 or 1, compressed, as text."""
    return base64.b64encode(zlib.compress(bytes(marks), 1)).decode()


_states: list[State] = [State()]


def current() -> State:
    """That of this process: a forked child begins with one of its own."""
    if _states[0].pid != os.getpid():
        _states[0] = State()
    return _states[0]


def note(text: str) -> None:
    """Something that could not be observed, and why."""
    if text not in current().notes:
        current().notes.append(text)


def write() -> None:
    """Write what this process did, once; nothing where no step was seen."""
    state = current()
    with _lock:
        if state.written or not state.step_ends or FOLDER not in os.environ:
            return
        state.written = True
    try:
        folder = Path(os.environ[FOLDER])
        path = folder / f"rank-{state.rank}-{state.pid}.json"
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(state.to_dict()), encoding="utf-8")
        temporary.replace(path)
    except Exception as error:  # noqa: BLE001 (whatever it is, the script goes on; the reader says that a rank is missing)
        print(f"observer: {error!r}", file=sys.stderr)


def _write_at_end() -> None:
    """At the end of this process: `multiprocessing` has its own end for children, which knows nothing of atexit."""
    from multiprocessing import util

    util.Finalize(None, write, exitpriority=100)
