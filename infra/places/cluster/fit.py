"""Checks that the pods of one moment fit a cluster's nodes. Pure: node sizes come from the settings, or from the
cluster.

A pod fits a node or does not: sums over nodes say nothing. So pods are placed one by one as the scheduler would, in the
order of their creation, each on the node with most CPUs left; a part of each node is reserved for other pods.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count

from infra.doctor import Finding
from infra.places.cluster.manifests import jobs, operator, pod_parts
from infra.settings.cluster import ClusterSettings
from infra.settings.problem import set_line
from infra.settings.rules import Quantity, quantity
from infra.settings.sections import OFF
from infra.settings.settings import Settings
from training.contract.arms import ARMS, Arm, counted
from training.contract.recipe import Recipe

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Size:
    """CPUs and memory: of a pod (request = limit), or of a node (allocatable)."""

    cpus: float
    memory_bytes: int

    @classmethod
    def of(cls, pod: pod_parts.Size) -> "Size":
        """Return the size of a pod, whose memory is a text."""
        return cls(pod.cpus, quantity("0").parse(pod.memory).bytes)

    def at_most(self, other: "Size") -> "Size":
        """Return the smaller CPUs and the smaller memory of the two."""
        return Size(min(self.cpus, other.cpus), min(self.memory_bytes, other.memory_bytes))

    def __str__(self) -> str:
        return f"{counted(self.cpus, 'CPU')} and {round(self.memory_bytes / GIB, 1):g} GiB"


OPERATOR = Size.of(operator.SIZE)
SUBMITTER = Size.of(jobs.SUBMITTER)
PARTS = (0.75, 0.5, 0.25)
"""Fractions of a CPU for a worker, if the nodes are too small for whole ones."""
RESERVED = Size(1, GIB)
"""Reserved on a node with system pods: two-node Minikube with Calico took 0.85 CPUs of its first node."""
RESERVED_WITHOUT_CONTROL_PLANE = Size(0.5, GIB)
"""Reserved on a node that is known to run only its agents: Calico's takes 0.25 CPUs."""


@dataclass(frozen=True)
class Measurement:
    """The pods that a measurement runs in a cluster."""

    workers: int
    worker: Size
    head: Size
    arms: tuple[str, ...]
    """The names of the arms whose pods have to fit."""

    @property
    def wide(self) -> Size:
        """Return the size of the wide arm's one pod: the CPUs and the memory of all workers."""
        return Size(self.workers * self.worker.cpus, self.workers * self.worker.memory_bytes)

    def moments(self) -> dict[str, list[Size]]:
        """Return the pods that exist at the same time, by arm: the idle Ray cluster and the operator always run."""
        always = [OPERATOR, self.head, *[self.worker] * self.workers]
        return {arm: [*always, *self._of_run(ARMS[arm])] for arm in self.arms}

    def without(self, *arms: str) -> "Measurement":
        """Return the measurement without these arms."""
        return replace(self, arms=tuple(arm for arm in self.arms if arm not in arms))

    def most(self, kept: Sequence[Size]) -> Size:
        """Return the most that all pods take at one time, plus what is reserved on each node."""
        moments = self.moments().values()
        return Size(
            max(sum(pod.cpus for pod in pods) for pods in moments) + sum(size.cpus for size in kept),
            max(sum(pod.memory_bytes for pod in pods) for pods in moments) + sum(size.memory_bytes for size in kept),
        )

    def _of_run(self, arm: Arm) -> list[Size]:
        if arm.start == "ray":
            return [SUBMITTER]
        if arm.start == "peers":
            return [self.worker] * self.workers
        return [self.wide if arm.all_cpus else self.worker]


def measurement_of(
    recipe: Recipe, worker_memory: Quantity, cluster: ClusterSettings, arms: tuple[str, ...]
) -> Measurement:
    """Return the measurement that the settings ask of a cluster; they may be a draft's, or complete."""
    return Measurement(
        workers=recipe.workers,
        worker=Size(recipe.worker_cpus, worker_memory.bytes),
        head=Size(cluster.head_cpus, cluster.head_memory.bytes),
        arms=arms,
    )


def cluster_fit(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> tuple[str, ...]:
    """Return the arms whose pods do not fit nodes of this allocatable size, minus what is reserved; empty if all
    fit."""
    return tuple(arm for arm, pods in measurement.moments().items() if not _placed(pods, nodes, kept))


def arms_to_leave_out(measurement: Measurement, fits: Callable[[Measurement], bool]) -> tuple[str, ...]:
    """Return the fewest arms without which the measurement fits; empty if there is no such choice."""
    optional = [arm for arm in measurement.arms if ARMS[arm].switch]
    for number in range(1, len(optional) + 1):
        for arms in combinations(optional, number):
            if fits(measurement.without(*arms)):
                return arms
    return ()


def without_arms_line(arms: Sequence[str]) -> list[str]:
    """Return the command line that leaves these arms out; empty for no arms."""
    return [" && ".join(set_line(ARMS[arm].switch, OFF) for arm in arms)] if arms else []


def _placed(pods: Sequence[Size], nodes: Sequence[Size], kept: Sequence[Size]) -> bool:
    left = [[a.cpus - b.cpus, a.memory_bytes - b.memory_bytes] for a, b in zip(nodes, kept, strict=True)]
    for pod in pods:
        fitting = [node for node in left if node[0] + 1e-9 >= pod.cpus and node[1] >= pod.memory_bytes]
        if not fitting:
            return False
        roomiest = max(fitting)
        roomiest[0] -= pod.cpus
        roomiest[1] -= pod.memory_bytes
    return True


def node_that_fits(measurement: Measurement, kept: Sequence[Size], at_least: Size) -> Size:
    """Return the smallest node, in whole CPUs and GiB from `at_least` up, of which `len(kept)` hold everything."""
    most = measurement.most(kept)
    roomy = Size(most.cpus + at_least.cpus + 1, most.memory_bytes + at_least.memory_bytes)
    cpus = _smallest(measurement, kept, [Size(n, roomy.memory_bytes) for n in _up(at_least.cpus, roomy.cpus)]).cpus
    memory = [Size(cpus, n * GIB) for n in _up(at_least.memory_bytes / GIB, roomy.memory_bytes / GIB + 1)]
    return _smallest(measurement, kept, memory)


def largest_worker(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> Size | None:
    """Return the largest worker with which everything fits, first by CPUs, then in whole GiB; None if there is none.

    In whole CPUs; in quarters of one where the nodes hold no worker of a whole one.

    Pods as large as nodes are what Ray recommends for a RayCluster: fewer processes talk to each other. Here a node
    holds a worker of the idle Ray cluster and one of `native`, so a worker is at most half of one.
    Source: https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """

    def fits(cpus: float, memory: int) -> bool:
        return not cluster_fit(replace(measurement, worker=Size(cpus, memory * GIB)), nodes, kept)

    cpus: float = _most(lambda number: fits(number, 1)) or next((part for part in PARTS if fits(part, 1)), 0)
    memory = _most(lambda number: fits(cpus, number)) if cpus else 0
    return Size(cpus, memory * GIB) if memory else None


def room(settings: Settings, nodes: Sequence[Size], kept: Sequence[Size]) -> Finding:
    """Describe how large workers could be: a setting decides it, so that a preview and a pull request show it."""
    measurement = measurement_of(settings.recipe, settings.run.worker_memory, settings.of_cluster, settings.arms)
    largest = largest_worker(measurement, nodes, kept)
    of = f"{len(nodes)} of at most {max(nodes, key=lambda node: node.cpus)}" if nodes else "none"
    if largest is None:
        return Finding("nodes", of, f"room for {counted(measurement.workers, 'worker')}", True)
    return Finding("nodes", of, f"the largest {measurement.workers} workers that fit:  {worker_line(largest)}", True)


def worker_line(worker: Size) -> str:
    """Return the command line that sets a worker's size."""
    whole = worker.memory_bytes % GIB == 0
    memory = f"{worker.memory_bytes // GIB}Gi" if whole else f"{worker.memory_bytes // MIB}Mi"
    return f"{set_line('workerCpus', f'{worker.cpus:g}')} && {set_line('workerMemory', memory)}"


def _most(fits: Callable[[int], bool]) -> int:
    """Return the largest whole number that fits; 0 if none does."""
    return next(number for number in count() if not fits(number + 1))


def _smallest(measurement: Measurement, kept: Sequence[Size], sizes: Sequence[Size]) -> Size:
    return next(size for size in sizes if not cluster_fit(measurement, [size] * len(kept), kept))


def _up(low: float, high: float) -> range:
    """Return the whole numbers from `low` to `high`, both rounded up."""
    return range(-int(-low // 1), -int(-high // 1) + 1)
