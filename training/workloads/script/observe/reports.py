"""Collects what a script says of how well it does: in its framework's logs, and by `ray.train.report`."""

from __future__ import annotations

import numbers
import time
from typing import Any

from .search import Search


class Reports:
    """The reports of this process."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        """The last number of each name."""
        self.points: list[tuple[float, str, float]] = []
        """Seconds of the monotonic clock, name and number of each report."""
        self.calls = 0
        """Of `ray.train.report`."""
        self.call_seconds = 0.0
        self.no_numbers: dict[str, str] = {}
        """What was reported and is no number, by name."""
        self.search = Search()
        self._first_by: dict[str, str] = {}
        """Whose hook saw a name first. A callback that passes Keras' logs on to Ray reports no second time."""

    def measured(self, name: str, reported: Any, by: str) -> None:
        """The script says how well it does. `by`: the framework whose hook has seen it."""
        value = number(reported)
        if value is None:
            self.no_numbers.setdefault(name, _kind(reported))
            return
        self.metrics[name] = value
        if self._first_by.setdefault(name, by) == by:
            self.points.append((time.monotonic(), name, value))
            self.search.reported(name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "metrics": self.metrics,
            "metricPoints": self.points,
            "noNumbers": self.no_numbers,
            "reports": self.calls,
            "reportSeconds": self.call_seconds,
            "waitedSeconds": self.search.waited_seconds,
        }


def number(value: Any) -> float | None:
    """Return a number of the script's, also where it is an array or a tensor without dimensions; None for all else."""
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
    """Return the words for what is no number: of numbers, how many."""
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    try:
        return f"{kind} of shape {tuple(shape)}" if shape is not None else kind
    except Exception:  # noqa: BLE001 (a shape of another kind)
        return kind
