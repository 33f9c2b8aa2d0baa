"""What a verdict says of where its runs were; and which throttling counts."""

from dataclasses import replace
from typing import Any

import pytest

from compare.comparison import compare
from compare.measurement import Run
from tests.unit.results import make_context, make_run, make_runs, replaced
from training.contract.result import Worker
from training.machine.topology import Cpu


def place(cpu: int, **changes: Any) -> Cpu:
    """A CPU that is a core of its own."""
    return replace(Cpu(cpu=cpu, core=cpu, kind=0, numa_node=0), **changes)


def with_places(*places: list[Cpu], arms: tuple[str, ...] = ("native", "ray"), last: str = "this-machine") -> list[Run]:
    """Runs whose ranks, in these arms, have these CPUs; the last rank is on the node `last`."""

    def workers(run: Run) -> list[Worker]:
        pairs = zip(run.result.workers, places, strict=True)
        *first, final = [replace(worker, cpus=cpus) for worker, cpus in pairs]
        return [*first, replace(final, node=last)]

    return [replaced(run, workers=workers(run)) if run.arm in arms else run for run in make_runs()]


def verdict(runs: list[Run]) -> str:
    """Its text."""
    return compare(runs, make_context()).verdict


def test_workers_that_share_a_core_are_said() -> None:
    """Each has a CPU of its own, and both are threads of one core."""
    text = verdict(with_places([place(0)], [place(1, core=0)]))

    assert (
        "Shared cores: the 2 CPUs of native and ray are threads of 1 physical core, so they compute less than 2 cores"
        " would." in text
    )
    assert "Shared cores" not in verdict(make_runs())


def test_cpu_0_of_two_nodes_is_no_shared_core() -> None:
    """Nor is a CPU that is shared altogether: that is oversubscription, and said as such."""
    assert "Shared cores" not in verdict(with_places([place(0)], [place(0)]))
    assert "Shared cores" not in verdict(with_places([place(0)], [place(0)], last="another"))


def test_cores_of_different_kinds_are_said() -> None:
    """One worker on a P-core and one on an E-core."""
    text = verdict(with_places([place(0)], [place(1, kind=1)]))

    assert "Different kinds of core: the workers of native and ray go at the slowest one's pace." in text


def test_numa_nodes_are_said_where_there_are_several() -> None:
    """A reduction between them is slower than within one."""
    text = verdict(with_places([place(0)], [place(1, numa_node=1)]))

    assert "The workers of native and ray are on NUMA nodes 0 and 1 of their machine." in text
    assert "NUMA" not in verdict(with_places([place(0, numa_node=None)], [place(1, numa_node=None)]))


def test_another_kernel_and_another_number_of_cpus_are_said() -> None:
    """Neither makes runs incomparable."""
    ray, *others = sorted(make_runs(), key=lambda run: run.name != "ray-1")
    first, second = ray.result.workers
    workers = [replace(first, software=replace(first.software, kernel="6.9.0")), second]
    runs = [*others, replaced(ray, workers=workers, provenance=replace(ray.result.provenance, cpus_allowed=64))]

    assert "The runs saw different systems: kernels 6.1.0 and 6.9.0; CPUs 4 and 64." in verdict(runs)


@pytest.mark.parametrize(
    ("throttled", "train_seconds", "said"),
    [(0.04, 1.0, False), (0.06, 1.0, True), (0.06, 20.0, False), (0.3, 20.0, True), (0.06, None, True)],
)
def test_throttling_is_said_where_it_counts(throttled: float, train_seconds: float | None, said: bool) -> None:
    """From a twentieth of a second and a hundredth of the training on; never as 0.0 s."""
    workers = [replace(worker, throttled_seconds=throttled) for worker in make_run("native").result.workers]
    changes = {"workers": workers, "train_seconds": train_seconds}

    text = verdict([replaced(run, **changes) if run.name == "native-1" else run for run in make_runs()])

    assert said == ("Throttled: the CPU quota held back native-1" in text)
    assert "for 0.0 s" not in text
