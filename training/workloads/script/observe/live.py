"""Reports the training's progress while it runs: a line every few seconds, written by rank 0."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

PROGRESS = "TRAINING_OBSERVE_PROGRESS"
"""Environment variable: the file to which lines of progress are appended; if absent, no lines are written."""
EPOCHS = "TRAINING_OBSERVE_EPOCHS"
"""Environment variable: the number of epochs, where the arguments of the script say it."""
SHORTEST_PAUSE, LONGEST_PAUSE, SHARE = 2.0, 30.0, 20
"""Shortest and longest pause between two lines in seconds; the pause between is the time so far divided by SHARE."""


class Live:
    """Appends lines of progress to a file; time is counted from the first step."""

    def __init__(self) -> None:
        self.path = os.environ.get(PROGRESS)
        self._began = self._last = 0.0

    def is_due(self, now: float, step: int) -> bool:
        """Return whether it is time to write a line. The first step starts the clock, and no line is written for it."""
        if step == 1:
            self._began = self._last = now
        pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, (now - self._began) / SHARE))
        return bool(self.path) and now - self._last >= pause

    def write(self, now: float, step: int, per_epoch: int | None, epochs: int | None, steps: int | None) -> None:
        """Write a line after step `step`, with the steps of an epoch, the epochs and the steps of the run if known."""
        self._last = now
        total = steps or (per_epoch * epochs if per_epoch and epochs else None)
        so_far = (now - self._began) / (step - 1) if step > 1 else None
        line: dict[str, Any] = {
            "event": "steps",
            "step": step,
            "steps": total,
            "stepsPerEpoch": per_epoch,
            "epochs": epochs if per_epoch else None,
            "secondsLeft": so_far * (total - step) if total and so_far is not None and total >= step else None,
        }
        with Path(str(self.path)).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
