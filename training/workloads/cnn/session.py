"""What one training process has in hand, from launch to result. Data only."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training.contract.clock import Phases, Stamp
from training.contract.provenance import Host
from training.contract.recipe import Recipe
from training.contract.result import Epoch, RayCluster, Software

if TYPE_CHECKING:
    from training.launch.usage import Usage
    from training.workloads.cnn.dataset import Data
    from training.workloads.cnn.loop import Loop


@dataclass(frozen=True)
class Launch:
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
    folder: Path | None = None
    """Where rank 0 writes progress and the saved model."""
    report: Callable[[dict[str, Any]], None] | None = None
    """Called on every rank after each epoch."""
    ray: RayCluster | None = None
    container_cpu: list[float] | None = None
    """What `usage.container_cpu` read at the start; None outside a pod."""


@dataclass
class Session:
    """A process that is set up: all it needs to train."""

    recipe: Recipe
    launch: Launch
    data: "Data"
    model: Any
    optimizer: Any
    loop: "Loop"
    usage: "Usage"
    compute_threads: int | None
    """Of TensorFlow's intra-op pool, as counted."""

    @property
    def images(self) -> int:
        """Training images of an epoch, over all workers."""
        return len(self.data.train_rows)

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch; the last may have fewer images."""
        return math.ceil(self.images / self.recipe.global_batch_size)


@dataclass
class Record:
    """What training measured on this rank."""

    first_step: Stamp
    history: list[Epoch] = field(default_factory=list)
    step_trace: list[float] = field(default_factory=list)
    warmup_seconds: float = 0.0
    report_seconds: float = 0.0
    timed_seconds: float = 0.0
    timed_cpu_seconds: float = 0.0
    own_images: int = 0
    """Training images that this rank itself processed."""
    covered: bool = True
    """In every epoch all ranks together saw every training image once."""
