"""What a training process is given before TensorFlow is imported: CPUs, threads and Keras. The same in every arm."""

import gc
import os

from training.config import Recipe
from training.provenance import allowed_cpus


def variables(threads: int) -> dict[str, str]:
    """Environment variables for a process with so many compute threads."""
    return {
        "TF_USE_LEGACY_KERAS": "1",  # Keras 3 fails under MultiWorkerMirroredStrategy ("PerReplica")
        "OMP_NUM_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
    }


def share_of_cpus(cpus: list[int], rank: int, count: int) -> list[int]:
    """The `count` CPUs of rank `rank`; ranks beyond the last CPU begin again with the first."""
    return sorted({cpus[(rank * count + i) % len(cpus)] for i in range(count)})


def prepare(recipe: Recipe, rank: int, cpus: list[int] | None) -> None:
    """Set this process up for `rank`: its environment, and its share of `cpus` where the system can bind a process.

    None leaves the CPUs as they are: in a pod the CPU limit holds them.
    """
    os.environ.update(variables(recipe.compute_threads()))
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share_of_cpus(cpus, rank, recipe.compute_threads()))


def defer_garbage_collection() -> None:
    """No garbage collection until `resume_garbage_collection`: what imports and tracing make is there to stay."""
    gc.disable()


def resume_garbage_collection() -> None:
    """Collect from now on, and never look again at what is there already."""
    gc.freeze()
    gc.enable()


def bound_cpus() -> list[int] | None:
    """The CPUs this process is bound to; None where the system has no affinity."""
    return allowed_cpus() if hasattr(os, "sched_getaffinity") else None
