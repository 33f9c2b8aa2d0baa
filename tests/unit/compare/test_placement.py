"""What a verdict says of where its runs were; and which throttling counts."""

import re
from dataclasses import replace
from typing import Any

import pytest

from compare.comparison import compare
from compare.fairness import verify
from compare.measurement import Run, of_repeats
from compare.qualifiers import qualifiers
from compare.quiet import observe
from compare.value import Check
from tests.golden import Wording
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


def qualified(runs: list[Run], name: str) -> str:
    """How the verdict is qualified under that name; nothing where it isn't."""
    return compare(runs, make_context()).reasons.get(f"verdict.{name}", "")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        # Each has a CPU of its own, and both are threads of one core
        ("sharedCores", ([place(0)], [place(1, core=0)])),
        # One worker on a P-core and one on an E-core
        ("kindsOfCore", ([place(0)], [place(1, kind=1)])),
        # A reduction between them is slower than within one
        ("numaNodes", ([place(0)], [place(1, numa_node=1)])),
    ],
)
def test_cores_and_nodes_that_workers_share_are_said(
    name: str, places: tuple[list[Cpu], ...], wording: Wording
) -> None:
    """Of one machine: the same numbers on two are no neighbours."""
    wording("verdict", qualified(with_places(*places), name))
    assert not qualified(make_runs(), name)
    assert not qualified(with_places(*places, last="another"), name) or name == "kindsOfCore"


def test_what_is_oversubscribed_or_not_known_is_no_shared_core() -> None:
    """A CPU that is shared altogether is said as such; and a system may not name NUMA nodes."""
    assert not qualified(with_places([place(0)], [place(0)]), "sharedCores")
    assert not qualified(with_places([place(0)], [place(0)], last="another"), "sharedCores")
    assert not qualified(with_places([place(0, numa_node=None)], [place(1, numa_node=None)]), "numaNodes")


def test_numa_nodes_of_an_earlier_run_are_said() -> None:
    """The ranks of the first repeat are on two nodes, and those of the others on one."""
    first, others = (with_places([place(0)], [place(1, numa_node=node)]) for node in (1, 0))
    runs = [run for run in first if run.repeat == 1] + [run for run in others if run.repeat > 1]

    assert qualified(runs, "numaNodes") == qualified(first, "numaNodes")


def test_another_kernel_and_another_number_of_cpus_are_said(wording: Wording) -> None:
    """Neither makes runs incomparable."""
    ray, *others = sorted(make_runs(), key=lambda run: run.name != "ray-1")
    first, second = ray.result.workers
    workers = [replace(first, software=replace(first.software, kernel="6.9.0")), second]
    runs = [*others, replaced(ray, workers=workers, provenance=replace(ray.result.provenance, cpus_allowed=64))]

    text = qualified(runs, "systems")
    assert {"6.1.0", "6.9.0", "4", "64"} <= set(re.findall(r"\d[\d.]*", text))
    wording("verdict", text)


@pytest.mark.parametrize(
    ("throttled", "train_seconds", "said"),
    [(0.04, 1.0, False), (0.06, 1.0, True), (0.06, 20.0, False), (0.3, 20.0, True), (0.06, None, True)],
)
def test_throttling_is_said_where_it_counts(throttled: float, train_seconds: float | None, said: bool) -> None:
    """From a twentieth of a second and a hundredth of the training on; never as 0.0 s."""
    workers = [replace(worker, throttled_seconds=throttled) for worker in make_run("native").result.workers]
    changes = {"workers": workers, "train_seconds": train_seconds}

    runs = [replaced(run, **changes) if run.name == "native-1" else run for run in make_runs()]
    text = qualified(runs, "throttling")

    assert said == ("native-1" in text)
    assert "for 0.0 s" not in text


def test_threads_that_the_script_itself_sets_are_said(wording: Wording) -> None:
    """One in every arm, as by `n_jobs=1`: that is what its user would have, and `wide` leaves CPUs idle. What this
    project sets itself is not so."""
    arms = ("baseline", "wide", "native", "ray")
    runs = [
        replaced(run, workers=[replace(worker, compute_threads=1) for worker in run.result.workers])
        for run in make_runs(arms=arms)
    ]
    context = make_context(arms=arms)
    repeats = [{run.arm: run for run in runs if run.repeat == repeat} for repeat in (1, 2, 3)]
    measured = of_repeats(repeats, context)
    of_script = replace(measured, workload=replace(measured.workload, binds_ranks=False))

    assert verify(measured, Check(True, "")).checks["threadsAsAsked"].passed is False
    assert verify(of_script, Check(True, "")).checks["threadsAsAsked"].passed
    wording("verdict", qualifiers(of_script, {}, observe(of_script), {})["ownThreads"])
