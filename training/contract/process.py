"""What a workload's body is told: which process of which run it is. Data only; standard library only."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from training.contract.clock import Phases, Stamp
from training.contract.provenance import Host
from training.contract.result import RayCluster, Software


class Checkpoints(Protocol):
    """Where the checkpoints of a run are kept. Every rank calls."""

    def keep(self, folder: Path | None, metrics: dict[str, Any]) -> None:
        """Keep the files of a folder, which rank 0 alone has, with what is reported of the epoch."""

    def newest(self) -> AbstractContextManager[Path | None]:
        """The newest that is whole, as a folder; None where there is none."""


@dataclass(frozen=True)
class Process:
    """How this process came to be, and what it is to do beside the recipe."""

    arm: str
    rank: int
    world: int
    """Processes of this run."""
    host: Host
    """As it was before the process was bound to its CPUs."""
    software: Software
    """As it was before anything of it ran."""
    started: Stamp
    """When the arm's first process started."""
    bound: bool = False
    """This process was bound to the CPUs of its rank."""
    phases: Phases = field(default_factory=Phases)
    """Start-up as measured so far."""
    dataset_path: str = ""
    storage: str = ""
    """The address of the run's folder for what outlives it; "": there is none."""
    folder: Path | None = None
    """Where rank 0 writes progress, and files of its own."""
    report: Callable[[dict[str, Any]], None] | None = None
    """Called on every rank after each epoch."""
    checkpoints: Checkpoints | None = None
    """The launcher's own way to keep them, which reports, too; None: it has none."""
    ray: RayCluster | None = None
    container_cpu: list[float] | None = None
    """What `usage.container_cpu` read at the start; None outside a pod."""
