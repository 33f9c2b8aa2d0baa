"""Collects what a script says of how well it does: in its framework's logs, and by `ray.train.report`.

A search that stops some of its trials names a Unix socket, and is asked at each report of its metric whether the
training goes on; `training/workloads/search/questions.py` answers there. The training waits for the answer, so it
trains exactly the epochs that were decided on. All ranks ask, and get the same answer to the same report.

Where nobody answers, the training goes on, and a note says why. An observer's failure must end no script, and a trial
that ended for that would look like one that was stopped. A trial whose search was killed does not go on for hours all
the same: `training/workloads/search/supervisor.py`, which started it, ends it.
"""

from __future__ import annotations

import json
import numbers
import os
import socket
import threading
import time
from typing import Any

SOCKET = "TRAINING_OBSERVE_SEARCH"
"""Environment variable: the path of the search's socket; if absent, no search decides whether trials go on."""
METRIC = "TRAINING_OBSERVE_METRIC"
"""Environment variable: the name of the metric."""
STOP = b"stop\n"
"""Answer of the search to a report after which the trial ends; the other answer is `go`."""


class Reports:
    """The reports of this process."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        """The last number of each name."""
        self.points: list[tuple[float, str, float]] = []
        """Seconds of the monotonic clock, name and number of each report."""
        self.calls = 0
        """Number of calls of `ray.train.report`."""
        self.call_seconds = 0.0
        self.no_numbers: dict[str, str] = {}
        """What was reported and is no number, by name."""
        self.search = Search()
        self._first_by: dict[str, str] = {}
        """The framework whose hook saw a name first: a callback that passes Keras' logs on to Ray counts once."""

    def measured(self, name: str, reported: Any, by: str) -> None:
        """Record that the script has reported a metric. `by`: the framework whose hook has seen the report."""
        value = number(reported)
        if value is None:
            self.no_numbers.setdefault(name, _kind(reported))
            return
        self.metrics[name] = value
        if self._first_by.setdefault(name, by) == by:
            self.points.append((time.monotonic(), name, value))
            self.search.reported(name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the reports as plain data."""
        return {
            "metrics": self.metrics,
            "metricPoints": self.points,
            "noNumbers": self.no_numbers,
            "reports": self.calls,
            "reportSeconds": self.call_seconds,
            "waitedSeconds": self.search.waited_seconds,
        }


def number(value: Any) -> float | None:
    """Return the value as a float if it is a number, or an array or tensor without dimensions; else None."""
    if isinstance(value, numbers.Real):
        return float(value)
    try:
        if len(value.shape):
            return None
        plain = (value if hasattr(value, "item") else value.numpy()).item()  # TensorFlow's have no `item`
        return None if isinstance(plain, (str, bytes, complex)) else float(plain)
    except Exception:  # noqa: BLE001 (it is something else)
        return None


def _kind(value: Any) -> str:
    """Return words for a value that is not a number: its type, and its shape if it has a shape."""
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    try:
        return f"{kind} of shape {tuple(shape)}" if shape is not None else kind
    except Exception:  # noqa: BLE001 (a shape of another kind)
        return kind


class Search:
    """The questions of this process to its search, which decides whether the trial goes on."""

    def __init__(self) -> None:
        self.metric = os.environ.get(METRIC) if os.environ.get(SOCKET) else None
        self.is_stopped = False
        self.waited_seconds = 0.0
        """Seconds that this process has waited for answers."""
        self._reports = 0
        self._due: float | None = None
        """The value of the last report, until the search has answered."""
        self._lock = threading.Lock()
        """Held by the thread that asks the search. The training thread waits for the lock; without it, it would train
        on before the answer."""
        self._connection: int | None = None
        """File descriptor of the connection: Python would warn a script of an open socket object at its end."""

    @property
    def is_due(self) -> bool:
        """Return whether the search has not answered the last report yet."""
        return self._due is not None

    def reported(self, name: str, value: float) -> None:
        """Record a report of the script if it is a report of the search's metric."""
        if name == self.metric:
            self._reports, self._due = self._reports + 1, value

    def ask(self, rank: int) -> None:
        """Ask the search about the last report, and wait for the answer. Raises OSError, once, if none comes."""
        with self._lock:
            began = time.monotonic()
            try:
                if self._due is not None:  # else another thread has asked
                    self.is_stopped = self._answer(rank, self._due) == STOP or self.is_stopped
            except OSError:
                self.metric = None
                raise
            finally:
                self._due = None
                self.waited_seconds += time.monotonic() - began

    def _answer(self, rank: int, value: float) -> bytes:
        if self._connection is None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.environ[SOCKET])
                self._connection = connection.detach()
        question = {"rank": rank, "report": self._reports, "value": value}
        os.write(self._connection, json.dumps(question).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = os.read(self._connection, 64)
            if not part:
                raise ConnectionError("it has gone away")
            answer += part
        return answer
