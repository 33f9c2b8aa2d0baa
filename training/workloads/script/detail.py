"""The script workload's part of a result: the observations, rank by rank. Data only; standard library only."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What the observer recorded of one rank."""

    rank: int
    world: int
    """World size, as the rank's framework reported it."""
    steps: int
    rows: int | None
    """Rows that reached this rank; null where they could not be counted."""
    weights: str | None
    """SHA-256 of the weights after the last step."""
    threads: int | None
    report_seconds: float
    """Seconds that the rank spent in ray.train.report."""
    hook_seconds: float
    """Seconds that the observer itself took."""
    ended_early: bool
    """True if the setting `measureSteps` ended the rank."""
    notes: list[str]
    """Facts that the observer could not see, and why."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that was copied to storage."""

    path: str
    """Path in the run's folder in storage."""
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ScriptDetail:
    """One run of a script."""

    kind: str
    framework: str
    """Name of the framework; `unknown` where the observer saw no step."""
    command: str
    """Command line as a user would type it."""
    folder: str
    """Folder in which the script was started."""
    settled_after: int | None
    """Number of warm-up steps, after which the time of a step had settled."""
    ranks: list[Rank]
    processes: int
    """The largest number of the run's processes that were counted at the same time."""
    left: int
    """Number of processes that the script left running, and that were then ended."""
    artifacts: list[Artifact] = field(default_factory=list)
    """Files of the script's folder `{storage}` that match the key `artifacts`."""
