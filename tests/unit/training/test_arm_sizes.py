"""CPUs and threads of the arms' processes."""

import pytest

from training.contract.arms import ARMS
from training.workloads.cnn.recipe import CnnRecipe


@pytest.mark.parametrize(("workers", "cpus", "threads"), [(2, 1, 2), (25, 0.28, 7), (25, 2.2, 55), (3, 0.5, 2)])
def test_the_wide_arm_has_a_thread_for_each_cpu_of_all_workers(workers: int, cpus: float, threads: int) -> None:
    """And none for what binary fractions add: 25 × 0.28 is 7.000000000000001."""
    recipe = CnnRecipe(workers=workers, worker_cpus=cpus, global_batch_size=100)

    assert threads == ARMS["wide"].compute_threads(recipe)
