"""Identifies one process of a run to the body of its workload. Data only; standard library only."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from training.contract.clock import Phases, Stamp
from training.contract.provenance import Host
from training.contract.result import RayCluster, Software


class Checkpoints(Protocol):
    """Keeps the checkpoints of a run. Every rank calls its methods."""

    def keep(self, folder: Path | None, metrics: dict[str, Any]) -> None:
        """Keep the files of a folder as a checkpoint, together with the metrics that are reported for the epoch.

        Rank 0 gives the folder; all other ranks give None.
        """

    def newest(self) -> AbstractContextManager[Path | None]:
        """Return a context manager that gives the newest complete checkpoint, as a folder; None if there is none."""


@dataclass(frozen=True)
class Process:
    """One training process: its rank, how it was started, and its inputs besides the recipe."""

    arm: str
    rank: int
    world: int
    """Number of processes of this run."""
    host: Host
    """The host, read before the process was bound to its CPUs."""
    software: Software
    """The software, read before any of it was used."""
    started: Stamp
    """Start of the arm's first process."""
    bound: bool = False
    """True if this process is bound to the CPUs of its rank."""
    phases: Phases = field(default_factory=Phases)
    """Seconds of the phases of the start-up, as measured so far."""
    dataset_path: str = ""
    storage: str = ""
    """The address of the run's folder for files that outlive the run; "" if the run has no such folder."""
    folder: Path | None = None
    """Folder in which rank 0 writes the progress and other files of the run."""
    report: Callable[[dict[str, Any]], None] | None = None
    """Function that every rank calls with an epoch's metrics, unless a checkpoint reports them; None if there is
    none."""
    checkpoints: Checkpoints | None = None
    """The launcher's own checkpoint manager, which also reports; None if the launcher has none."""
    ray: RayCluster | None = None
    container_cpu: list[float] | None = None
    """Reading of `usage.container_cpu` at the start; None outside a pod."""
