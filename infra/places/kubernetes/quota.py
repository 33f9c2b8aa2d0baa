"""Whether a queue of Kueue's will ever admit a measurement: the RayCluster, which is kept, and one run beside it.

What others use now is no obstacle: it ends. What the measurement needs above the whole quota is: both would wait for
each other for ever, and Kueue would say so to nobody.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from infra.places.cluster.api import kube, kueue
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.nodes import tolerates
from infra.places.cluster.api.selectors import meets, selects
from infra.places.cluster.fit import Measurement, Size, arms_to_leave_out, measurement_of, without_arms_line
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.pods import pods_of
from infra.places.kubernetes import cohorts
from infra.places.kubernetes.cohorts import UNLIMITED, CohortCycleError, Cohorts, FlavorResource
from infra.settings.pod_template import REQUIRED
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from infra.settings.settings import Settings
from training.contract.arms import ARMS, counted

LIST = "kubectl get localqueues"
PODS = "pods"
"""The resource under which a queue that covers it counts pods."""

Amounts = Mapping[str, float]
"""By resource: CPUs, bytes, or a number of GPUs."""


@dataclass(frozen=True)
class Flavor:
    """One kind of node of a ClusterQueue, with the most of each resource that it may ever give."""

    name: str
    most: Amounts
    closed_to: frozenset[bool] = frozenset()
    """Pods that may not be on such nodes: True for those that train, False for the others."""


@dataclass(frozen=True)
class PodSet:
    """Pods that are admitted as a whole, and in each group of resources on one kind of node."""

    amounts: Amounts
    trains: bool


_Wanted = tuple[Sequence[Flavor], bool, Amounts]
"""A group of resources, whether what is wanted of it is for pods that train, and how much."""


def problems(api: Any, settings: Settings) -> Iterator[Problem]:
    """Find that there is no Kueue, no such queue, one that admits nothing, or too little quota. Who may not read any of
    that is let through. Raises KubeError."""
    if not settings.of_cluster.queue:
        return
    try:
        yield from _problems(api, settings, settings.of_cluster.queue)
    except KubeError as error:
        if error.status != 403:
            raise


def _problems(api: Any, settings: Settings, name: str) -> Iterator[Problem]:
    namespace, without = settings.of_cluster.namespace, "pulumi config rm queue"
    served = kueue.version(api)
    if not served:
        yield Problem(f"queue is {name}, and this cluster has no Kueue", fixes=(without,))
        return
    queues = kueue.local_queues(api, served, namespace)
    existing = kube.find(api, f"/api/v1/namespaces/{namespace}")
    if existing is None and settings.of_cluster.create_namespace:
        yield Problem(
            f"queue is {name}, a LocalQueue of namespace {namespace}, which does not exist: have both made, and then",
            fixes=(set_line("createNamespace", "false"),),
        )
        return
    if name not in queues:
        ways = [set_line("queue", each) for each in sorted(queues)] or [f"{LIST} --all-namespaces"]
        yield Problem(f"namespace {namespace} has no LocalQueue {name}", fixes=(*ways, without))
        return
    of_cluster = str(queues[name]["spec"]["clusterQueue"])
    inactive = list(_inactive("LocalQueue", queues[name]))
    try:
        cluster_queue = kube.find(api, f"/apis/{served}/clusterqueues/{of_cluster}")
    except KubeError:
        yield from inactive
        raise
    if cluster_queue is None:
        yield Problem(f"LocalQueue {name} names a ClusterQueue that there is not: {of_cluster}", fixes=(without,))
        return
    # A LocalQueue of a ClusterQueue that is stopped says no more than that it is.
    if stopped := list(_inactive("ClusterQueue", cluster_queue)) or inactive:
        yield from stopped
        return
    labels = (existing or {}).get("metadata", {}).get("labels", {})
    if selects(cluster_queue["spec"].get("namespaceSelector"), labels):
        yield from _too_little(api, settings, served, cluster_queue)
        return
    yield Problem(
        f"ClusterQueue {of_cluster} admits nothing of namespace {namespace}: its namespaceSelector does not match"
        " the namespace's labels",
        fixes=(f"kubectl get namespace {namespace} --show-labels", without),
    )


def _inactive(kind: str, queue: Mapping[str, Any]) -> Iterator[Problem]:
    if why := kueue.why_inactive(queue):
        yield Problem(f"{kind} {queue['metadata']['name']} admits nothing: {why}", fixes=("pulumi config rm queue",))


def _too_little(api: Any, settings: Settings, served: str, queue: Mapping[str, Any]) -> Iterator[Problem]:
    """Find that a ClusterQueue admits nothing for its cohorts, or has too little quota. Raises KubeError."""
    measurement = measurement_of(settings.recipe, settings.run.worker_memory, settings.of_cluster, settings.arms)
    flavor_path = f"/apis/{served}/resourceflavors"
    try:
        groups = flavors(
            queue, limits(api, served, queue), lambda flavor: closed_to(api, f"{flavor_path}/{flavor}", settings)
        )
    except CohortCycleError as error:
        yield Problem(
            f"ClusterQueue {queue['metadata']['name']} admits nothing: its cohorts are each other's parents ({error})",
            fixes=("pulumi config rm queue",),
        )
        return
    yield from too_little(queue, groups, measurement, settings.of_cluster.gpu_resource)


def closed_to(api: Any, path: str, settings: Settings) -> frozenset[bool]:
    """Return which pods Kueue does not put on a ResourceFlavor's nodes: it has a taint that they do not tolerate, or
    another value of a label that they select, or keep off. Raises KubeError."""
    flavor: Mapping[str, Any] = (kube.find(api, path) or {}).get("spec", {})
    spec = ray_cluster.spec(pods_of(settings).ray_cluster)
    templates = {False: spec["headGroupSpec"]["template"], True: spec["workerGroupSpecs"][0]["template"]}
    return frozenset(trains for trains, template in templates.items() if not takes(flavor, template["spec"]))


def takes(flavor: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Return whether Kueue puts pods of this spec on a ResourceFlavor's nodes."""
    labels = flavor.get("nodeLabels", {})
    tolerations = [*pod.get("tolerations", ()), *flavor.get("tolerations", ())]
    taints = [taint for taint in flavor.get("nodeTaints", ()) if taint["effect"] != "PreferNoSchedule"]
    tolerated = all(any(tolerates(each, taint) for each in tolerations) for taint in taints)
    selected = all(labels[key] == value for key, value in pod.get("nodeSelector", {}).items() if key in labels)
    return tolerated and selected and _has_affinity(labels, pod)


def _has_affinity(labels: Mapping[str, str], pod: Mapping[str, Any]) -> bool:
    """Return whether a ResourceFlavor's labels match the required node affinity of a pod.

    Kueue reads of it what is about these labels, and takes a term without any for one that matches. Source:
    flavorSelector in https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/scheduler/flavorassigner/flavorassigner.go.
    """
    terms = pod.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", ())
    return not terms or any(
        all(meets(labels, each) for each in term.get("matchExpressions", ()) if each["key"] in labels) for term in terms
    )


def limits(api: Any, served: str, queue: Mapping[str, Any]) -> Callable[[FlavorResource], float]:
    """Return what says how much of a flavor's resource a ClusterQueue may ever use. Without the right to list the
    others of its cohort they may lend without a limit. Raises KubeError."""
    quotas = cohorts.quotas(queue)
    try:
        others = kueue.cohorts(api, served) if cohorts.parent_of(queue) else ([dict(queue)], [])
    except KubeError as error:
        if error.status != 403:
            raise
        return lambda of: quotas[of].nominal + quotas[of].borrowing
    return partial(Cohorts(*others).most, str(queue["metadata"]["name"]))


def too_little(
    queue: Mapping[str, Any], groups: Sequence[Sequence[Flavor]], measurement: Measurement, gpu_resource: str
) -> Iterator[Problem]:
    """Refuse what no quota holds: by resource what the RayCluster and the largest run need at once, and what there
    is. Liftable: Kueue may be told to ignore resources, or to count them otherwise, and that is in its own settings."""

    def short_arms(smaller: Measurement) -> list[str]:
        of_arms = {arm: pod_sets(smaller, arm, gpu_resource) for arm in smaller.arms}
        return [arm for arm, needed in of_arms.items() if not holds(groups, needed, in_order=_in_order(queue))]

    def fits(smaller: Measurement) -> bool:
        return not short_arms(smaller)

    short = short_arms(measurement)
    if not short:
        return
    needed = [pods.amounts for pods in pod_sets(measurement, short[0], gpu_resource)]
    names = [name for name in dict.fromkeys(name for amounts in needed for name in amounts) if _counts(groups, name)]
    totals = {name: sum(amounts.get(name, 0.0) for amounts in needed) for name in names}
    above = {name: total for name, total in totals.items() if total > _sum(groups, name)} or totals
    listed = "; ".join(f"{shown(name, total)} of {_offered(groups, name)}" for name, total in above.items())
    fewer = (n for n in range(measurement.workers - 1, 0, -1) if fits(replace(measurement, workers=n)))
    ways = without_arms_line(arms_to_leave_out(measurement, fits))
    ways += [set_line("workers", number) for number in list(fewer)[:1]]
    cohort = cohorts.parent_of(queue)
    lent = f", with all that cohort {cohort} may lend" if cohort else ""
    yield Problem(
        f"ClusterQueue {queue['metadata']['name']} never admits the Ray cluster of"
        f" {counted(measurement.workers, 'worker')} and {' or '.join(short)} at the same time, and the first is kept"
        f" while the others run: both would wait for ever. With {short[0]} they need {listed}{lent}",
        fixes=(*ways, *_look(groups), "pulumi config rm queue", set_line("allowOversubscription", ON)),
        liftable=True,
    )


def flavors(
    queue: Mapping[str, Any], most: Callable[[FlavorResource], float], closed: Callable[[str], frozenset[bool]]
) -> list[list[Flavor]]:
    """Return the flavours of each group of resources, with what `most` says of each resource; `closed` says of each to
    which pods it is closed. Raises what `most` raises."""
    return [
        [
            Flavor(
                str(flavor["name"]),
                {each["name"]: most((flavor["name"], each["name"])) for each in flavor["resources"]},
                closed(str(flavor["name"])),
            )
            for flavor in group["flavors"]
        ]
        for group in queue["spec"].get("resourceGroups", ())
    ]


def pod_sets(measurement: Measurement, arm: str, gpu_resource: str) -> list[PodSet]:
    """Return what is admitted as a whole, in Kueue's order: Ray's head, its workers, the arm's pods."""
    workers = [measurement.worker] * measurement.workers
    trains = ARMS[arm].start != "ray"
    sets = ([measurement.head], False), (workers, True), ([pod.size for pod in measurement.of_run(ARMS[arm])], trains)
    return [PodSet(_amounts(pods, gpu_resource), of_training) for pods, of_training in sets]


def _amounts(pods: Sequence[Size], gpu_resource: str) -> dict[str, float]:
    total = {
        "cpu": sum(pod.cpus for pod in pods),
        "memory": float(sum(pod.memory_bytes for pod in pods)),
        gpu_resource: float(sum(pod.gpus for pod in pods)),
        PODS: float(len(pods)),
    }
    return {name: amount for name, amount in total.items() if amount}


def _in_order(queue: Mapping[str, Any]) -> bool:
    """Return whether Kueue gives the first flavour that has room: it may be told to prefer one in which nothing has to
    be borrowed."""
    chosen = queue["spec"].get("flavorFungibility", {}).get("whenCanBorrow")
    return chosen != "TryNextFlavor" or not cohorts.parent_of(queue)


def holds(groups: Sequence[Sequence[Flavor]], needed: Sequence[PodSet], *, in_order: bool = True) -> bool:
    """Return whether each set of pods finds quota in every group of resources that it needs, all at once.

    `in_order`: a set gets the first flavour that is open to it and has room, as Kueue gives it, and what would fit in
    another order waits. Otherwise any choice will do.
    """
    wanted = []
    for pods in needed:
        requests = {name: amount for name, amount in pods.amounts.items() if _counts(groups, name)}
        if not all(any(name in flavor.most for group in groups for flavor in group) for name in requests):
            return False
        of_groups = [(group, {name: requests[name] for name in group[0].most if name in requests}) for group in groups]
        wanted += [(group, pods.trains, of_group) for group, of_group in of_groups if of_group]
    return _hold(wanted, {}, in_order=in_order)


def _hold(wanted: Sequence[_Wanted], used: Mapping[FlavorResource, float], *, in_order: bool) -> bool:
    """Return whether what is wanted finds quota beside what is used."""
    if not wanted:
        return True
    (group, trains, amounts), *rest = wanted
    for flavor in group:
        taken = {(flavor.name, name): used.get((flavor.name, name), 0.0) + amount for name, amount in amounts.items()}
        if trains in flavor.closed_to or any(total > flavor.most[name] + 1e-9 for (_, name), total in taken.items()):
            continue
        if _hold(rest, {**used, **taken}, in_order=in_order):
            return True
        if in_order:
            return False
    return False


def _counts(groups: Sequence[Sequence[Flavor]], name: str) -> bool:
    """Return whether a resource needs quota: the number of pods does in a queue that covers it alone."""
    return name != PODS or any(name in flavor.most for group in groups for flavor in group)


def _sum(groups: Sequence[Sequence[Flavor]], name: str) -> float:
    return sum(flavor.most.get(name, 0.0) for group in groups for flavor in group)


def _offered(groups: Sequence[Sequence[Flavor]], name: str) -> str:
    offers = [flavor for group in groups for flavor in group if name in flavor.most]
    if not offers:
        return "none"
    return " and ".join(f"{shown(name, each.most[name])} in flavor {each.name}{_closed(each)}" for each in offers)


def _closed(flavor: Flavor) -> str:
    """Return which pods a flavour's taints and labels keep off; empty for none."""
    if not flavor.closed_to:
        return ""
    if len(flavor.closed_to) > 1:
        return " (closed to all pods by its taints or labels)"
    return f" (closed to pods that {'train' if True in flavor.closed_to else 'do not train'} by its taints or labels)"


def _look(groups: Sequence[Sequence[Flavor]]) -> list[str]:
    """Return the line that shows the flavours which are closed to pods."""
    names = dict.fromkeys(flavor.name for group in groups for flavor in group if flavor.closed_to)
    return [f"kubectl get resourceflavors {' '.join(names)} --output yaml"] if names else []


def shown(name: str, amount: float) -> str:
    """`2.5 cpu`, `6 GiB memory`, or `any` for what has no limit."""
    if amount == UNLIMITED:
        return "any"
    return f"{amount / 2**30:g} GiB {name}" if name == "memory" else f"{amount:g} {name}"
