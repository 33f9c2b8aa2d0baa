"""Collects what a script says of how well it does: in its framework's logs, and by `ray.train.report`."""

from __future__ import annotations

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
        self.search = Search()
        self._first_by: dict[str, str] = {}
        """Whose hook saw a name first. A callback that passes Keras' logs on to Ray reports no second time."""

    def measured(self, name: str, value: float, by: str) -> None:
        """The script says how well it does. `by`: the framework whose hook has seen it."""
        self.metrics[name] = value
        if self._first_by.setdefault(name, by) == by:
            self.points.append((time.monotonic(), name, value))
            self.search.reported(name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "metrics": self.metrics,
            "metricPoints": self.points,
            "reports": self.calls,
            "reportSeconds": self.call_seconds,
            "waitedSeconds": self.search.waited_seconds,
        }
