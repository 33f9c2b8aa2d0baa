"""What a verdict says of where its runs were; and which throttling counts."""

from typing import Any

import pytest

from tests.unit.results import make_context, make_run, make_runs
from training.comparison import Run, compare


def place(cpu: int, **changes: Any) -> dict[str, Any]:
    """A CPU that is a core of its own."""
    return {"cpu": cpu, "core": cpu, "kind": 0, "numaNode": 0} | changes


def with_places(*places: list[dict[str, Any]], arms: tuple[str, ...] = ("native", "ray")) -> list[Run]:
    """Runs whose ranks, in these arms, have these CPUs."""
    runs = make_runs()
    for run in runs:
        if run.arm in arms:
            for worker, cpus in zip(run.summary["workers"], places, strict=True):
                worker["cpus"] = cpus
    return runs


def verdict(runs: list[Run]) -> str:
    """Its text."""
    return compare(runs, make_context()).data["verdict"]


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
    runs = with_places([place(0)], [place(0)])

    assert "Shared cores" not in verdict(runs)
    for run in runs:
        run.summary["workers"][-1]["node"] = "another"
    assert "Shared cores" not in verdict(runs)


def test_cores_of_different_kinds_are_said() -> None:
    """One worker on a P-core and one on an E-core."""
    text = verdict(with_places([place(0)], [place(1, kind=1)]))

    assert "Different kinds of core: the workers of native and ray go at the slowest one's pace." in text


def test_numa_nodes_are_said_where_there_are_several() -> None:
    """A reduction between them is slower than within one."""
    text = verdict(with_places([place(0)], [place(1, numaNode=1)]))

    assert "The workers of native and ray are on NUMA nodes 0 and 1 of their machine." in text
    assert "NUMA" not in verdict(with_places([place(0, numaNode=None)], [place(1, numaNode=None)]))


def test_another_kernel_and_another_number_of_cpus_are_said() -> None:
    """Neither makes runs incomparable."""
    runs = make_runs()
    ray = next(run for run in runs if run.name == "ray-1").summary
    ray["workers"][0]["software"] = ray["workers"][0]["software"] | {"kernel": "6.9.0"}
    ray["provenance"] = ray["provenance"] | {"cpusAllowed": 64}

    assert "The runs saw different systems: kernels 6.1.0 and 6.9.0; CPUs 4 and 64." in verdict(runs)


@pytest.mark.parametrize(
    ("throttled", "train_seconds", "said"),
    [(0.04, 1.0, False), (0.06, 1.0, True), (0.06, 20.0, False), (0.3, 20.0, True), (0.06, None, True)],
)
def test_throttling_is_said_where_it_counts(throttled: float, train_seconds: float | None, said: bool) -> None:
    """From a twentieth of a second and a hundredth of the training on; never as 0.0 s."""
    workers = [worker | {"throttledSeconds": throttled} for worker in make_run("native").summary["workers"]]
    runs = make_runs()
    for run in runs:
        if run.name == "native-1":
            run.summary.update(workers=workers, trainSeconds=train_seconds)

    text = verdict(runs)

    assert said == ("Throttled: the CPU quota held back native-1" in text)
    assert "for 0.0 s" not in text
