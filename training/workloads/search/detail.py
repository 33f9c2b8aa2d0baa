"""The search workload's part of a result: its trials. Data only; standard library only."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from training.contract.codec import decode, encode, write_whole

RECORD = "trial.json"
"""File of a trial that has ended, in its folder."""
LOG = "log.txt"
"""File of what a trial printed, there."""
COUNTED = ("steps", "rows", "parameters")
"""What is counted of a training, and does not depend on chance: as `training.workloads.script.same_work` has it."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a trial of population based training: one start of the script."""

    config: dict[str, Any]
    """Values by the names of the space, as they were in it."""
    began: float
    """Seconds since the epoch."""
    ended: float
    until: int
    """Epochs at its end, those of whoever had trained the checkpoint before among them."""
    epochs: int | None
    """Epochs that it trained itself; null where none was seen."""
    metric: float | None
    """The last value reported; null where there is none."""
    origin: list[int] | None
    """Trial and segment, both from 0, whose checkpoint it began with; null where it began with an empty folder."""
    digest_before: str
    """SHA-256 of the folder as it was when the script was started."""
    digest_after: str
    """SHA-256 of the folder when the script had ended."""

    @property
    def seconds(self) -> float:
        """Return the time from its start to its end."""
        return self.ended - self.began


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial: a training of the script with one configuration."""

    number: int
    """From 0, in the order of the configurations."""
    config: dict[str, Any]
    """Values by the names of the space."""
    state: str
    """`finished`; `stopped` by the search before its last epoch; `failed`."""
    began: float
    """Seconds since the epoch: its process was started."""
    ended: float
    """Seconds since the epoch: none of its processes was left."""
    epochs: int | None
    """Epochs that were trained, else reports of the metric; null where neither was seen."""
    points: list[list[float]]
    """[seconds since `began`, value] of every report of the metric."""
    metric: float | None
    """The last value reported; null where there is none."""
    weights: str | None
    """SHA-256 at the last step; null where the weights were not seen."""
    exit_code: int
    """Negative if a signal ended it."""
    why: str = ""
    """Reason why it failed."""
    steps: int | None = None
    """Optimizer steps; null where none was seen."""
    counted: dict[str, str] = field(default_factory=dict)
    """Of COUNTED what is known of its training."""
    threads: int | None = None
    """Compute threads as its framework had them; null where that is not known."""
    peak_memory_bytes: int | None = None
    waited_seconds: float = 0.0
    """Time in which the trial waited for the search to decide whether it goes on."""
    segments: list[Segment] = field(default_factory=list)
    """Its parts, where population based training started it in several; the trial itself waits between them."""

    @property
    def seconds(self) -> float:
        """Return the time from its start to its end, without that between its segments."""
        return sum(part.seconds for part in self.segments) if self.segments else self.ended - self.began

    def write(self, folder: Path) -> None:
        """Write the record into the trial's folder, whole."""
        write_whole(folder / RECORD, json.dumps(encode(self), allow_nan=False))


@dataclass(frozen=True, kw_only=True)
class SearchDetail:
    """One run of a search."""

    kind: str
    """Kind of the script."""
    command: str
    """Command of a trial as a user would type it, with placeholders."""
    folder: str
    """Folder in which trials are started."""
    slots: int
    """Trials at a time."""
    trials: list[Trial]


def read(folder: Path) -> Trial | None:
    """Return the record in a trial's folder; None where the trial has not ended, or whoever ran it was killed."""
    try:
        text = (folder / RECORD).read_text(encoding="utf-8")
    except OSError:
        return None
    return cast("Trial", decode(Trial, json.loads(text), RECORD))
