"""State of one training process, from launch to result. Data only."""

import math
from dataclasses import dataclass, field
from typing import Any

from training.contract.clock import Stamp
from training.contract.process import Process
from training.launch.usage import Usage
from training.workloads.cnn.dataset import Data
from training.workloads.cnn.detail import Epoch
from training.workloads.cnn.loop import Loop
from training.workloads.cnn.recipe import CnnRecipe


@dataclass
class Session:
    """All that a training process needs, after it is set up."""

    recipe: CnnRecipe
    process: Process
    data: Data
    model: Any
    optimizer: Any
    loop: Loop
    usage: Usage
    compute_threads: int | None
    """Number of threads in TensorFlow's intra-op pool, as counted."""

    @property
    def images(self) -> int:
        """Return the number of training images of an epoch, over all workers."""
        return len(self.data.train_rows)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of optimizer steps of an epoch; the last may have fewer images."""
        return math.ceil(self.images / self.recipe.global_batch_size)


@dataclass
class Record:
    """Measurements of the training on this rank."""

    first_step: Stamp
    history: list[Epoch] = field(default_factory=list)
    step_trace: list[float] = field(default_factory=list)
    warmup_seconds: float = 0.0
    report_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    timed_seconds: float = 0.0
    timed_cpu_seconds: float = 0.0
    own_images: int = 0
    """Number of training images that this rank itself processed."""
    covered: bool = True
    """True if in every epoch all ranks together saw every training image once."""
