"""Checks that the pods of one moment fit a cluster's nodes. Pure: node sizes come from the settings, or from the
cluster.

A pod fits a node or does not: sums over nodes say nothing. So pods are placed one by one as the scheduler would, in the
order of their creation: each on the node with most CPUs left, and a worker on one with the fewest workers of its arm. A
part of each node is reserved for other pods.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count, islice

from infra.doctor import Finding
from infra.places.cluster.manifests import jobs, monitoring, operator, pod_parts, ray_autoscaler
from infra.settings.cluster import AUTOSCALED, KEPT, PER_RUN, PREFERRED, REQUIRED, ClusterSettings
from infra.settings.problem import set_line
from infra.settings.rules import Quantity, quantity
from infra.settings.sections import OFF
from infra.settings.settings import Settings
from training.contract.arms import ARMS, RAY, Arm, counted
from training.contract.recipe import Recipe

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Size:
    """The CPUs, memory and GPUs of a pod (request = limit) or of a node (allocatable)."""

    cpus: float
    memory_bytes: int
    gpus: int = 0

    @classmethod
    def of(cls, pod: pod_parts.Size) -> "Size":
        """Return the size of a pod, whose memory is given as a text such as 512Mi."""
        return cls(pod.cpus, quantity("0").parse(pod.memory).bytes)

    def at_most(self, other: "Size") -> "Size":
        """Return the smaller number of CPUs and the smaller memory of two sizes, with the GPUs of this size."""
        return Size(min(self.cpus, other.cpus), min(self.memory_bytes, other.memory_bytes), self.gpus)

    def __str__(self) -> str:
        memory = f"{round(self.memory_bytes / GIB, 1):g} GiB"
        if self.gpus:
            return f"{counted(self.cpus, 'CPU')}, {memory} and {counted(self.gpus, 'GPU')}"
        return f"{counted(self.cpus, 'CPU')} and {memory}"


OPERATOR = Size.of(operator.SIZE)
SUBMITTER = Size.of(jobs.SUBMITTER)
PROMETHEUS = Size.of(monitoring.SIZE)
BESIDE_HEAD = {KEPT: Size(0, 0), PER_RUN: Size(0, 0), AUTOSCALED: Size.of(ray_autoscaler.SIZE)}
"""The size of the containers beside Ray in the head's pod, for each value of `rayWorkers`."""
PARTS = (0.75, 0.5, 0.25)
"""Fractions of a CPU that a worker may have if the nodes are too small for whole CPUs."""
RESERVED = Size(1, GIB)
"""What is reserved on a node with system pods. Those of Minikube's first node of two used 0.85 CPUs with Calico."""
RESERVED_WITHOUT_CONTROL_PLANE = Size(0.5, GIB)
"""The size that is reserved on a node which runs only per-node agents. Calico's agent takes 0.25 CPUs."""


@dataclass(frozen=True)
class Pod:
    """A pod to be placed on a node, together with the other pods that exist at the same time."""

    size: Size
    arm: str = ""
    """The arm whose worker this pod is, if the arm has several, which are spread over the nodes; otherwise empty."""


@dataclass(frozen=True)
class Measurement:
    """The pods that a measurement runs in a cluster."""

    workers: int
    worker: Size
    head: Size
    arms: tuple[str, ...]
    """The names of the arms whose pods have to fit the nodes."""
    others: tuple[Size, ...] = ()
    """The sizes of pods that always run, apart from the idle Ray cluster and the operator."""
    per_run: bool = False
    """Whether Ray's workers exist only while Ray runs."""
    gpus_apart: bool = False
    """Whether pods without a GPU stay off the nodes that have GPUs."""
    spread: str = PREFERRED
    """How workers are spread over the nodes: a value of the setting `spreadWorkers`."""

    @property
    def wide(self) -> Size:
        """Return the size of the only pod of the arm `wide`: the CPUs and the memory of all workers together."""
        return Size(self.workers * self.worker.cpus, self.workers * self.worker.memory_bytes)

    def pods(self) -> dict[str, list[Pod]]:
        """Return the pods that exist at the same time, by arm: among them the operator and the Ray cluster, which
        always run, but with `per_run` Ray's workers only in arms that use Ray."""
        workers = [Pod(self.worker, RAY.name)] * self.workers
        always = [*map(Pod, [OPERATOR, *self.others, self.head]), *([] if self.per_run else workers)]
        of_ray = workers if self.per_run else []
        return {
            arm: [*always, *(of_ray if ARMS[arm].start == "ray" else []), *self.of_run(ARMS[arm])] for arm in self.arms
        }

    def moments(self) -> dict[str, list[Size]]:
        """Return the sizes of the pods that exist at the same time, by arm."""
        return {arm: [pod.size for pod in pods] for arm, pods in self.pods().items()}

    def gpus_at_once(self) -> dict[str, int]:
        """Return the number of GPUs that all pods hold at the same time, by arm."""
        return {arm: sum(pod.gpus for pod in pods) for arm, pods in self.moments().items()}

    def without(self, *arms: str) -> "Measurement":
        """Return the measurement without the given arms."""
        return replace(self, arms=tuple(arm for arm in self.arms if arm not in arms))

    def most(self, kept: Sequence[Size]) -> Size:
        """Return the most CPUs and memory of all pods at the same time, plus those reserved on each node (`kept`)."""
        moments = self.moments().values()
        return Size(
            max(sum(pod.cpus for pod in pods) for pods in moments) + sum(size.cpus for size in kept),
            max(sum(pod.memory_bytes for pod in pods) for pods in moments) + sum(size.memory_bytes for size in kept),
        )

    def of_run(self, arm: Arm) -> list[Pod]:
        """Return the pods that a run of the arm adds, without the pods of Ray's cluster."""
        if arm.start == "ray":
            return [Pod(SUBMITTER)]
        if arm.start == "peers":
            return [Pod(self.worker, arm.name)] * self.workers
        return [Pod(self.wide if arm.all_cpus else self.worker)]


def measurement_of(
    recipe: Recipe, worker_memory: Quantity, cluster: ClusterSettings, arms: tuple[str, ...]
) -> Measurement:
    """Return the pods of the measurement that these settings describe. The settings may be complete or a draft."""
    beside = BESIDE_HEAD[cluster.ray_workers]
    return Measurement(
        workers=recipe.workers,
        worker=Size(recipe.worker_cpus, worker_memory.bytes, recipe.worker_gpus),
        head=Size(cluster.head_cpus + beside.cpus, cluster.head_memory.bytes + beside.memory_bytes),
        arms=arms,
        others=(PROMETHEUS,) if cluster.monitoring == monitoring.NAME else (),
        per_run=cluster.ray_workers != KEPT,
        spread=cluster.spread_workers,
    )


def cluster_fit(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> tuple[str, ...]:
    """Return the arms whose pods do not fit the nodes; empty if all fit. `nodes` are allocatable sizes; `kept` is what
    is reserved on each of them."""
    moments = measurement.pods()
    return tuple(arm for arm, pods in moments.items() if _placed(measurement, pods, nodes, kept) is None)


def spreads(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> dict[str, tuple[int, ...]]:
    """Return how many workers each node will probably hold, most first, for each arm that fits and has several."""
    numbers = {}
    for arm, pods in measurement.pods().items():
        places = _placed(measurement, pods, nodes, kept) or []
        holders = Counter(place for place, pod in zip(places, pods, strict=False) if pod.arm == arm)
        if holders:
            numbers[arm] = tuple(sorted(holders.values(), reverse=True))
    return numbers


def unlike_spreads(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> str:
    """Return a description of how the arms' workers will probably be spread over the nodes, if the arms differ in this;
    empty if they do not differ, or if the scheduler is left to decide."""
    if measurement.spread not in (PREFERRED, REQUIRED):
        return ""
    numbers = spreads(measurement, nodes, kept)
    if len(set(numbers.values())) < 2:
        return ""
    shown = ", ".join(f"{arm} {' + '.join(map(str, counts))}" for arm, counts in numbers.items())
    return (
        f"the arms' workers will probably be spread over the nodes differently ({shown}), because some node has no room"
        " for another beside the other pods; the verdict says where they were"
    )


def arms_to_leave_out(measurement: Measurement, fits: Callable[[Measurement], bool]) -> tuple[str, ...]:
    """Return the fewest arms without which the measurement fits; empty if no choice of arms makes it fit."""
    optional = [arm for arm in measurement.arms if ARMS[arm].switch and not measurement.worker.gpus]
    for number in range(1, len(optional) + 1):
        for arms in combinations(optional, number):
            if fits(measurement.without(*arms)):
                return arms
    return ()


def without_arms_line(arms: Sequence[str]) -> list[str]:
    """Return the command line that leaves the given arms out; empty for no arms."""
    return [" && ".join(set_line(ARMS[arm].switch, OFF) for arm in arms)] if arms else []


def _placed(
    measurement: Measurement, pods: Sequence[Pod], nodes: Sequence[Size], kept: Sequence[Size]
) -> list[int] | None:
    """Return the index of the node on which the scheduler would place each pod; None if any pod fits no node."""
    left = [[a.cpus - b.cpus, a.memory_bytes - b.memory_bytes, a.gpus] for a, b in zip(nodes, kept, strict=True)]
    counts: dict[str, list[int]] = {}
    places = []
    for pod in pods:
        workers = counts.setdefault(pod.arm, [0] * len(nodes))
        place = _place(measurement, pod, nodes, left, workers)
        if place is None:
            return None
        left[place] = [
            a - b for a, b in zip(left[place], (pod.size.cpus, pod.size.memory_bytes, pod.size.gpus), strict=True)
        ]
        workers[place] += bool(pod.arm)
        places.append(place)
    return places


def _place(
    measurement: Measurement, pod: Pod, nodes: Sequence[Size], left: Sequence[Sequence[float]], workers: Sequence[int]
) -> int | None:
    """Return the index of the node on which the scheduler would place one pod, or None. `left` is the free room of each
    node; `workers` says how many workers of the pod's arm each node already holds."""
    size, spread = pod.size, measurement.spread if pod.arm else ""
    fitting = [
        index
        for index, (cpus, memory, gpus) in enumerate(left)
        if cpus + 1e-9 >= size.cpus and memory >= size.memory_bytes and gpus >= size.gpus
        if size.gpus or not (measurement.gpus_apart and nodes[index].gpus)
        if spread != REQUIRED or workers[index] == min(workers)
    ]
    return max(
        fitting,
        key=lambda index: (-workers[index] if spread in (PREFERRED, REQUIRED) else 0, left[index]),
        default=None,
    )


def gpu_shortage(measurement: Measurement, nodes: Sequence[Size]) -> str:
    """Return a text with the number of GPUs that each arm holds at the same time, for the arms that need more GPUs than
    the nodes have; empty if the GPUs suffice."""
    offered = sum(node.gpus for node in nodes)
    short = {arm: number for arm, number in measurement.gpus_at_once().items() if number > offered}
    if not short:
        return ""
    idle = 0 if measurement.per_run else measurement.workers * measurement.worker.gpus
    needed = ", ".join(f"{arm} {number}" for arm, number in short.items())
    idle_too = f" (the Ray cluster holds {idle} of them while other arms run, too)" if idle else ""
    return f"GPUs at the same time: {needed}{idle_too}; the nodes that they may use offer {offered}"


def gpu_lines(measurement: Measurement, nodes: Sequence[Size]) -> list[str]:
    """Return the command line that sets the largest number of workers for which the nodes have enough GPUs; empty if
    the GPUs do not suffice for one worker."""
    fewer = (
        n for n in range(measurement.workers - 1, 0, -1) if not gpu_shortage(replace(measurement, workers=n), nodes)
    )
    return [set_line("workers", number) for number in islice(fewer, 1)]


def node_that_fits(measurement: Measurement, kept: Sequence[Size], at_least: Size) -> Size:
    """Return the smallest node size, in whole CPUs and GiB and not below `at_least`, of which `len(kept)` nodes hold
    the whole measurement."""
    return smallest_node(lambda nodes: not cluster_fit(measurement, nodes, kept), measurement, kept, at_least)


def smallest_node(
    is_enough: Callable[[Sequence[Size]], bool], measurement: Measurement, kept: Sequence[Size], at_least: Size
) -> Size:
    """Return the smallest node size, in whole CPUs and GiB and not below `at_least`, of which `len(kept)` nodes satisfy
    `is_enough`."""
    most = measurement.most(kept)
    roomy = Size(most.cpus + at_least.cpus + 1, most.memory_bytes + at_least.memory_bytes, at_least.gpus)
    sizes = [replace(roomy, cpus=number) for number in _up(at_least.cpus, roomy.cpus)]
    cpus = next(size for size in sizes if is_enough([size] * len(kept))).cpus
    memory = [
        Size(cpus, n * GIB, at_least.gpus) for n in _up(at_least.memory_bytes / GIB, roomy.memory_bytes / GIB + 1)
    ]
    return next(size for size in memory if is_enough([size] * len(kept)))


def largest_worker(measurement: Measurement, nodes: Sequence[Size], kept: Sequence[Size]) -> Size | None:
    """Return the largest worker with which all pods fit (first the most CPUs, then the most whole GiB); None if no
    worker fits.

    The CPUs are whole numbers, or quarters of a CPU if no node has room for a worker with a whole CPU.

    Ray recommends pods as large as the nodes for a RayCluster, because then fewer processes talk to each other. Here
    each node holds a worker of the idle Ray cluster and a worker of the arm `native`, so a worker is at most half of a
    node.
    Source: https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """

    def fits(cpus: float, memory: int) -> bool:
        worker = replace(measurement.worker, cpus=cpus, memory_bytes=memory * GIB)
        return not cluster_fit(replace(measurement, worker=worker), nodes, kept)

    cpus: float = _most(lambda number: fits(number, 1)) or next((part for part in PARTS if fits(part, 1)), 0)
    memory = _most(lambda number: fits(cpus, number)) if cpus else 0
    return Size(cpus, memory * GIB) if memory else None


def room(settings: Settings, nodes: Sequence[Size], kept: Sequence[Size]) -> Finding:
    """Return a finding that says how large the workers could be. It is never a failure: settings decide the size."""
    measurement = measurement_of(settings.recipe, settings.run.worker_memory, settings.of_cluster, settings.arms)
    largest = largest_worker(measurement, nodes, kept)
    of = f"{len(nodes)} of at most {max(nodes, key=lambda node: node.cpus)}" if nodes else "none"
    if largest is None:
        return Finding("nodes", of, f"room for {counted(measurement.workers, 'worker')}", True)
    return Finding("nodes", of, f"the largest {measurement.workers} workers that fit:  {worker_line(largest)}", True)


def spread(unlike: str) -> Iterator[Finding]:
    """Yield a finding if the arms' workers are spread differently. The finding never counts as a failure, because the
    measurement reports the spread, too."""
    if unlike:
        yield Finding("spread", unlike, "as many workers of each arm on a node", True)


def worker_line(worker: Size) -> str:
    """Return the command line that sets a worker's size."""
    whole = worker.memory_bytes % GIB == 0
    memory = f"{worker.memory_bytes // GIB}Gi" if whole else f"{worker.memory_bytes // MIB}Mi"
    return f"{set_line('workerCpus', f'{worker.cpus:g}')} && {set_line('workerMemory', memory)}"


def _most(fits: Callable[[int], bool]) -> int:
    """Return the largest whole number for which `fits` is true, counted up from 1; 0 if it is false for 1."""
    return next(number for number in count() if not fits(number + 1))


def _up(low: float, high: float) -> range:
    """Return the whole numbers from `low` to `high`, both rounded up."""
    return range(-int(-low // 1), -int(-high // 1) + 1)
