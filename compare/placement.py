"""Remarks on where the runs were: shared cores, kinds of core, NUMA nodes, systems.

It judges nothing: none of this makes runs incomparable. Pure: runs in, sentences without their full stop out, each ""
if it does not apply. Standard library only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compare.measurement import Run
from training.contract.arms import counted
from training.machine.topology import Cpu

T = TypeVar("T")


def shared_cores(runs: Sequence[Run]) -> str:
    """CPUs of a run that are threads of one core: two of them compute less than two cores."""
    arms: dict[tuple[int, int], list[str]] = {}
    for run in runs:
        cpus, cores = len(_of_nodes(run, lambda place: place.cpu)), len(_of_nodes(run, lambda place: place.core))
        if cores < cpus:
            arms.setdefault((cpus, cores), []).append(run.arm)
    shared = [
        f"the {counted(cpus, 'CPU')} of {_listed(names)} are threads of {counted(cores, 'physical core')}"
        for (cpus, cores), names in arms.items()
    ]
    return f"Shared cores: {'; '.join(shared)}, so they compute less than {_cores(arms)} would" if shared else ""


def kinds_of_core(runs: Sequence[Run]) -> str:
    """Ranks on slower cores than others: synchronous workers go at the pace of the slowest."""
    arms = [run.arm for run in runs if len({place.kind for place in _places(run)}) > 1]
    return f"Different kinds of core: the workers of {_listed(arms)} go at the slowest one's pace" if arms else ""


def numa_nodes(runs: Sequence[Run]) -> str:
    """Ranks of one machine on several of its NUMA nodes."""
    nodes = {run.arm: sorted({node for _, node in _of_nodes(run, lambda p: p.numa_node) if node is not None})
             for run in runs}  # fmt: skip
    arms = [arm for arm, numbers in nodes.items() if len(numbers) > 1]
    if not arms:
        return ""
    return f"The workers of {_listed(arms)} are on NUMA nodes {_listed(map(str, nodes[arms[0]]))} of their machine"


def different_systems(runs: Sequence[Run]) -> str:
    """Kernels and numbers of CPUs: the models are told by themselves, and C libraries must be equal."""
    kernels = {worker.software.kernel for run in runs for worker in run.result.workers}
    cpus = {str(run.result.provenance.cpus_allowed) for run in runs}
    kinds = (("kernels", kernels), ("CPUs", cpus))
    differences = [f"{what} {_listed(values)}" for what, values in kinds if len(values) > 1]
    return f"The runs saw different systems: {'; '.join(differences)}" if differences else ""


def _places(run: Run) -> list[Cpu]:
    return [place for worker in run.result.workers for place in worker.cpus or ()]


def _of_nodes(run: Run, read: Callable[[Cpu], T]) -> set[tuple[str, T]]:
    """Return `read` of each CPU of a run's ranks, with the CPU's machine."""
    return {(worker.node, read(place)) for worker in run.result.workers for place in worker.cpus or ()}


def _cores(arms: Iterable[tuple[int, int]]) -> str:
    return f"{max(cpus for cpus, _ in arms)} cores"


def _listed(names: Iterable[str]) -> str:
    *first, last = sorted(set(names))
    return f"{', '.join(first)} and {last}" if first else last
