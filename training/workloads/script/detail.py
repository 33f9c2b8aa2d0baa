"""What a result of a script has beyond the core: what was observed, rank by rank. Data only; standard library only."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What one rank was seen to do."""

    rank: int
    world: int
    """As its framework had it."""
    steps: int
    rows: int | None
    """That reached it; null where they could not be counted."""
    weights: str | None
    """SHA-256 at its last step."""
    threads: int | None
    report_seconds: float
    """In ray.train.report."""
    hook_seconds: float
    """That the observer itself took."""
    ended_early: bool
    """By measureSteps."""
    notes: list[str]
    """What could not be observed, and why."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that was copied to storage."""

    path: str
    """In the run's folder there."""
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ScriptDetail:
    """One run of a script."""

    kind: str
    framework: str
    """`unknown` where no step was seen."""
    command: str
    """As one would type it."""
    folder: str
    """In which it was started."""
    settled_after: int | None
    """Steps until the time of a step had settled: those before are its warm-up."""
    ranks: list[Rank]
    processes: int
    """The most that were counted at a time."""
    left: int
    """Processes that it left behind, which were ended."""
    artifacts: list[Artifact] = field(default_factory=list)
    """What the key `artifacts` names of its folder `{storage}`."""
