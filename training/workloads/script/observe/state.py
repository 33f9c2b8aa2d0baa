"""What one process has done so far, and how it is written: one JSON file, at the end of the training."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import in_pod
from .live import EPOCHS, Live
from .usage import Usage, peak_memory_bytes, thread_cpus

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
        self.pod = in_pod.Pod()
        self.began = time.time()
        self.step_ends: list[float] = []
        """Seconds of the monotonic clock, without `own_seconds`."""
        self.usage = Usage()
        self.live = Live()
        self.loaders: dict[int, Loader] = {}
        self.read: list[Loader] = []
        self.read_for_next = True
        self.clock_of: int | None = None
        self.rank, self.world = rank_of_environment()
        self.threads: int | None = None
        self.framework: str | None = None
        self.rows_per_step: int | None = None
        self.epoch_steps: int | None = None
        self.epochs = int(os.environ.get(EPOCHS) or 0) or None
        self.all_steps = int(os.environ.get(STEPS) or 0) or None
        self.weights: Callable[[], str | None] = lambda: None
        self.learning_rate: Callable[[], Any] = lambda: None
        self.ray = False
        """Whether this process had started Ray, or joined one, by its first step."""
        self.first_learning_rate: float | None = None
        self.metrics: dict[str, float] = {}
        self.metric_points: list[tuple[float, str, float]] = []
        self.reports = 0
        self.report_seconds = 0.0
        self.hook_seconds = 0.0
        self.own_seconds = 0.0
        """What the observer took between two steps or after the last, beside the hooks."""
        self.gradient_bytes: Callable[[], int | None] = lambda: None
        self.probe: Callable[[], None] = lambda: None
        """Called once, when this rank makes no more steps."""
        self.all_reduce: dict[str, float] | None = None
        self.no_all_reduce = ""
        self.peak_memory_bytes: int | None = None
        self._ended_after = 0
        """Steps."""
        self.ended_early = False
        self.notes: list[str] = []
        self.written = False

    def deliver(self, loader: Loader) -> None:
        """`loader` has delivered a batch that the next step may be made of."""
        if self.read_for_next:
            self.read, self.read_for_next = [], False
        if loader not in self.read:
            self.read.append(loader)

    def take_clock(self, clock: int) -> None:
        """Steps of the optimizer (or model, or algorithm) `clock` are those that count, unless others do already."""
        if self.clock_of is None:
            self.clock_of = clock
            _write_at_end()

    def step(self, clock: int) -> bool:
        """Count a step of `clock`, where that is the one that counts or the first of all; true if it was counted."""
        self.take_clock(clock)
        if clock != self.clock_of:
            return False
        if not self.step_ends:
            self.first_learning_rate = _number(self.learning_rate)
            self.ray = _ray_runs()
        now = time.monotonic()
        self.step_ends.append(now - self.own_seconds)
        for loader in self.read:  # several: a validation comes between steps, or there are two sets to learn from
            loader.rows_at_step.append(loader.rows)
        self.read_for_next = True
        try:
            self.usage.step(now)
            if self.rank == 0 and self.live.is_due(now, len(self.step_ends)):
                self._tell(now)
        except Exception as error:  # noqa: BLE001 (the step is counted: every rank has to end after the same one)
            note(f"CPU time or progress could not be observed: {error!r}")
        return True

    def _tell(self, now: float) -> None:
        self.live.write(now, len(self.step_ends), self._steps_per_epoch(), self.epochs, self.all_steps)

    def _training(self) -> Loader | None:
        """The data set with the most steps, where any has one."""
        loader = max(self.loaders.values(), key=lambda one: len(one.rows_at_step), default=None)
        return loader if loader and loader.rows_at_step else None

    def _steps_per_epoch(self) -> int | None:
        """By what is known so far: a step may take several batches. None where a step is an epoch, as of boosters."""
        loader, steps = self._training(), self.epoch_steps
        counted = loader.rows_at_step if loader else []
        if loader and loader.epoch_rows and len(counted) > 1 and counted[-1] > counted[0]:
            steps = math.ceil(loader.epoch_rows * (len(counted) - 1) / (counted[-1] - counted[0]))
        return steps if steps and steps > 1 else None

    def end_training(self) -> None:
        """What is done when no more steps are expected, and is no part of the script's time."""
        if self._ended_after == len(self.step_ends):
            return
        self._ended_after = len(self.step_ends)
        began, probe, self.probe = time.monotonic(), self.probe, lambda: None
        try:
            self.peak_memory_bytes = peak_memory_bytes()
            if self.rank == 0 and self.live.path:
                self._tell(began)
            probe()
        except Exception as error:  # noqa: BLE001 (the script goes on, and its observation is written)
            note(f"the end of the training could not be observed: {error!r}")
        finally:
            self.own_seconds += time.monotonic() - began

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
        loader = self._training()
        began = time.monotonic()
        weights = self.weights()
        self.own_seconds += time.monotonic() - began
        return {
            "pid": self.pid,
            "pod": self.pod.to_dict(),
            "rank": self.rank,
            "world": self.world,
            "framework": self.framework,
            "threads": self.threads,
            "ray": self.ray,
            "startSeconds": self.began,
            "stepEnds": self.step_ends,
            "clockOffset": time.time() - time.monotonic(),
            "rowsAtStep": loader.rows_at_step if loader else None,
            "rowsPerStepReported": self.rows_per_step,
            "datasetRows": loader.dataset_rows if loader else None,
            "epochRows": loader.epoch_rows if loader else None,
            "epochBatches": loader.epoch_batches if loader else self.epoch_steps,
            "firstPassRows": _packed(loader.first_pass) if loader and loader.numbered else None,
            "weights": weights,
            "learningRates": [self.first_learning_rate, _number(self.learning_rate)],
            "metrics": self.metrics,
            "metricPoints": self.metric_points,
            "reports": self.reports,
            "reportSeconds": self.report_seconds,
            "hookSeconds": self.hook_seconds,
            "ownSeconds": self.own_seconds,
            "cpuAtStep": self.usage.cpu_at_step,
            "samples": self.usage.samples,
            "threadCpus": thread_cpus(),
            "peakMemoryBytes": self.peak_memory_bytes,
            "gradientBytes": self.gradient_bytes(),
            "allReduce": self.all_reduce,
            "noAllReduce": self.no_all_reduce,
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


def _ray_runs() -> bool:
    worker = sys.modules.get("ray._private.worker")
    return bool(worker and worker.is_initialized())


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
        state.end_training()
        folder = Path(os.environ[FOLDER])
        path, text = folder / f"rank-{state.rank}-{state.pid}.json", json.dumps(state.to_dict())
        if in_pod.put(path.name, text):
            return
        temporary = path.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except Exception as error:  # noqa: BLE001 (whatever it is, the script goes on; the reader says that a rank is missing)
        print(f"observer: {error!r}", file=sys.stderr)


def _write_at_end() -> None:
    """At the end of this process: `multiprocessing` has its own end for children, which knows nothing of atexit."""
    from multiprocessing import util

    util.Finalize(None, write, exitpriority=100)
