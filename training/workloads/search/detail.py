"""The search workload's part of a result: its trials. Data only; standard library only."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from training.contract.codec import decode, encode, write_whole

RECORD = "trial.json"
"""Name of the file, in a trial's folder, with the record of a trial that has ended."""
LOG = "log.txt"
"""Name of the file, in a trial's folder, with what the trial printed."""
COUNTED = ("steps", "rows", "parameters")
"""What is counted of a training and does not depend on chance, by the names of
`training.workloads.script.same_work`."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a trial of population based training: one start of the script."""

    config: dict[str, Any]
    """Values of the script's arguments, by the names of the search space."""
    began: float
    """Seconds since the epoch."""
    ended: float
    until: int
    """Epochs at the end of the segment, which include those trained before the checkpoint it began with."""
    epochs: int | None
    """Epochs that the segment itself trained; null where the observer saw none."""
    metric: float | None
    """The last value of the metric that was reported; null if none was."""
    origin: list[int] | None
    """Trial and segment, from 0, whose checkpoint this segment began with; null if it began with an empty folder."""
    digest_before: str
    """SHA-256 of the checkpoint's folder when the script was started."""
    digest_after: str
    """SHA-256 of the checkpoint's folder when the script had ended."""

    @property
    def seconds(self) -> float:
        """Return the seconds from the segment's start to its end."""
        return self.ended - self.began


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial: a training of the script with one configuration."""

    number: int
    """Number of the trial, from 0, in the order of the configurations."""
    config: dict[str, Any]
    """Values of the script's arguments, by the names of the search space."""
    state: str
    """How the trial ended: `finished`; `stopped` by the search before its last epoch; or `failed`."""
    began: float
    """When the trial's process was started, in seconds since the epoch."""
    ended: float
    """When none of the trial's processes was left, in seconds since the epoch."""
    epochs: int | None
    """Number of epochs that were trained, or else of reports of the metric; null if the observer saw neither."""
    points: list[list[float]]
    """Pairs [seconds since `began`, value], one for each report of the metric."""
    metric: float | None
    """The last value of the metric that was reported; null if none was."""
    weights: str | None
    """SHA-256 of the weights after the last step; null where the observer did not see the weights."""
    exit_code: int
    """Exit code; negative if a signal ended the trial."""
    why: str = ""
    """Reason why the trial failed; "" if it did not."""
    steps: int | None = None
    """Number of optimizer steps; null where the observer saw none."""
    counted: dict[str, str] = field(default_factory=dict)
    """What is known of the training, by the names in COUNTED."""
    threads: int | None = None
    """Number of compute threads, as the trial's framework reported it; null if unknown."""
    peak_memory_bytes: int | None = None
    waited_seconds: float = 0.0
    """Seconds in which the trial waited for the search to decide whether the trial goes on."""
    segments: list[Segment] = field(default_factory=list)
    """The segments of the trial, if population based training started it in several; the trial waits between them."""

    @property
    def seconds(self) -> float:
        """Return the seconds from the trial's start to its end, without the time between its segments."""
        return sum(part.seconds for part in self.segments) if self.segments else self.ended - self.began

    def write(self, folder: Path) -> None:
        """Write the record into the trial's folder, at once and never in part."""
        write_whole(folder / RECORD, json.dumps(encode(self), allow_nan=False))


@dataclass(frozen=True, kw_only=True)
class SearchDetail:
    """The search workload's part of the result of one run."""

    kind: str
    """Kind of the script."""
    command: str
    """Command of a trial as a user would type it, with placeholders."""
    folder: str
    """Folder in which trials are started."""
    slots: int
    """Number of trials that run at the same time."""
    trials: list[Trial]


def read(folder: Path) -> Trial | None:
    """Return the record in a trial's folder; None if it has not ended, or the process that ran it was killed."""
    try:
        text = (folder / RECORD).read_text(encoding="utf-8")
    except OSError:
        return None
    return cast("Trial", decode(Trial, json.loads(text), RECORD))
