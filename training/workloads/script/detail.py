"""The script workload's part of a result: the observations, rank by rank. Data only; standard library only."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The observation of one rank."""

    rank: int
    world: int
    """World size, as its framework had it."""
    steps: int
    rows: int | None
    """Rows that reached this rank; null where they could not be counted."""
    weights: str | None
    """SHA-256 at its last step."""
    threads: int | None
    report_seconds: float
    """Time in ray.train.report."""
    hook_seconds: float
    """Time that the observer itself took."""
    ended_early: bool
    """True if `measureSteps` ended it."""
    notes: list[str]
    """Facts that could not be observed, and why."""


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
    """`unknown` where no step was seen."""
    command: str
    """Command line as a user would type it."""
    folder: str
    """Folder in which it was started."""
    settled_after: int | None
    """Steps until the time of a step had settled: those before are its warm-up."""
    ranks: list[Rank]
    processes: int
    """The most that were counted at a time."""
    left: int
    """Processes that it left behind, which were ended."""
    artifacts: list[Artifact] = field(default_factory=list)
    """Files of its folder `{storage}` that match the key `artifacts`."""
