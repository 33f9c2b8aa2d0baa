"""CPUs and threads of the arms' processes, and their parts of a batch."""

import pytest

from training.contract.arms import ARMS
from training.contract.recipe import batch_split
from training.workloads.cnn.recipe import CnnRecipe


@pytest.mark.parametrize(("workers", "cpus", "threads"), [(2, 1, 2), (25, 0.28, 7), (25, 2.2, 55), (3, 0.5, 2)])
def test_the_wide_arm_has_a_thread_for_each_cpu_of_all_workers(workers: int, cpus: float, threads: int) -> None:
    """And none for what binary fractions add: 25 × 0.28 is 7.000000000000001."""
    recipe = CnnRecipe(workers=workers, worker_cpus=cpus, global_batch_size=100)

    assert threads == ARMS["wide"].compute_threads(recipe)


@pytest.mark.parametrize(("images", "shares"), [(128, [64, 64]), (128, [43, 43, 42]), (2, [1, 1, 0])])
def test_a_batch_that_workers_do_not_divide_loses_no_image(images: int, shares: list[int]) -> None:
    """Strong scaling: a step has the same images with any number of workers, split as evenly as can be."""
    assert shares == batch_split(images, len(shares))
