"""Inspects an existing cluster, and checks that a measurement can run there, before anything is created in it.

It does not check the settings by themselves, and changes nothing: it only reads.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from infra.places.cluster import crds, namespace_limits
from infra.places.cluster.api import kube, kueue, leftover_jobs, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import RayError
from infra.places.cluster.fit import (
    RESERVED,
    Measurement,
    Size,
    arms_to_leave_out,
    cluster_fit,
    gpu_shortage,
    largest_worker,
    measurement_of,
    unlike_spreads,
    without_arms_line,
    worker_line,
)
from infra.places.cluster.manifests.monitoring import POD_MONITOR_CRD
from infra.places.cluster.manifests.network import API_SERVER_PORTS, Servers
from infra.places.cluster.manifests.operator import RELEASE
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.places.cluster.place import storage_problems, why_namespace_stays
from infra.places.kubernetes import gpu_nodes
from infra.settings.cluster import AUTOSCALED, EXISTING, PER_RUN, PROMETHEUS
from infra.settings.problem import Problem, set_line
from infra.settings.rules import CHART
from infra.settings.sections import ON
from infra.settings.settings import Settings
from training.contract.arms import counted
from training.launch.ray import other_jobs

OPERATOR_SELECTOR = f"app.kubernetes.io/name={CHART}"
CRD_NAMES = ("rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io")
SERVICES = "/api/v1/namespaces/{}/services"
ENDPOINTS = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_WATCH = "--watch-namespace="
_FIRST_PROMETHEUS = "kubectl get prometheus --all-namespaces --output=jsonpath='{.items[0].metadata.namespace}'"


def problems(api: Any, settings: Settings) -> list[Problem]:
    """Return everything in this cluster that prevents the measurement. Raise KubeError if it does not answer."""
    return [
        *_namespace(api, settings),
        *_jobs(api, settings),
        *_operator(api, settings),
        *_api_server(api, settings),
        *_priority_class(api, settings),
        *_pod_monitors(api, settings),
        *_readers(api, settings),
        *queue(api, settings),
        *namespace_limits.problems(api, settings),
        *_fit(api, settings),
        *storage_problems(api, settings),
    ]


def _namespace(api: Any, settings: Settings) -> Iterator[Problem]:
    reason = why_namespace_stays(api, settings)
    if reason:
        yield Problem(reason, fixes=(set_line("createNamespace", ON),))
        return
    name, create = settings.of_cluster.namespace, settings.of_cluster.create_namespace
    try:
        existing = kube.get(api, f"/api/v1/namespaces/{name}")
    except KubeError as error:
        if error.status != 404:
            raise
        if not create:
            make = (f"kubectl create namespace {name}", set_line("createNamespace", "true"))
            yield Problem(f"the namespace {name} does not exist, and createNamespace is false", fixes=make)
        return
    if create and (existing["metadata"].get("labels") or {}).get(PROJECT_LABEL) != PROJECT:
        ways = (set_line("namespace", f"{name}-2"), set_line("createNamespace", "false"))
        yield Problem(
            f"the namespace {name} exists, and this project did not create it: it was not changed", fixes=ways
        )


def _jobs(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem for unfinished runs, of another stack or an interrupted update: they share the measured cores."""
    namespace, stack = settings.of_cluster.namespace, settings.stack
    unfinished = leftover_jobs.unfinished_jobs(api, namespace)
    own = [job for job in unfinished if leftover_jobs.stack_of(job) == stack]
    others = [f"{job['metadata']['name']} of {f'stack {owner}' if owner else 'an unknown stack'}"
              for job in unfinished if (owner := leftover_jobs.stack_of(job)) != stack]  # fmt: skip
    if others:
        yield Problem(
            f"in namespace {namespace} a run of another stack is unfinished ({', '.join(others)}). It would share its"
            " cores with yours, and has to end first; to watch it",
            fixes=(f"kubectl get jobs --namespace {namespace} --watch",),
        )
    if own:
        # Not deleted: an update of one that Pulumi knows would fail.
        names = " ".join(str(job["metadata"]["name"]) for job in own)
        yield Problem(
            f"in namespace {namespace} a run is unfinished ({names}): an interrupted update of this stack left"
            f" it, or another checkout's stack {stack} runs it; if an update left it, end it",
            fixes=tuple(leftover_jobs.end_line(job, namespace) for job in own),
        )
    if not unfinished:
        yield from _ray_jobs(api, namespace, stack)


def _ray_jobs(api: Any, namespace: str, stack: str) -> Iterator[Problem]:
    try:
        jobs = ray_api.jobs_of_others(api, namespace, stack)
    except RayError as error:
        why, _, way = str(error).partition("\n")
        yield Problem(why.rstrip(":"), fixes=(way.strip(),))
        return
    if jobs:
        yield Problem(other_jobs.reason(jobs, stack), fixes=tuple(other_jobs.end_line(job, stack) for job in jobs))


def _operator(api: Any, settings: Settings) -> Iterator[Problem]:
    wanted = settings.of_cluster.kuberay_version
    if settings.of_cluster.operator == "install":
        yield from _foreign_crds(api)
        return
    deployments = kube.items(api, "/apis/apps/v1/deployments", labelSelector=OPERATOR_SELECTOR)
    namespace = settings.of_cluster.namespace
    versions = operator_versions(deployments, namespace)
    install = set_line("operator", "install")
    if any(_is_own(deployment, namespace) for deployment in deployments):
        # Pulumi deletes a release that the program no longer declares.
        yield Problem(
            f"this project installed the KubeRay operator of namespace {namespace}, and operator is existing:"
            " an update would delete it, and nothing would manage the Ray cluster",
            fixes=(install,),
        )
    elif not versions:
        where = f"that watches namespace {namespace}"
        yield Problem(f"operator is existing, and this cluster has no KubeRay operator {where}", fixes=(install,))
    elif wanted not in versions:
        ways = tuple(set_line("kuberayVersion", version) for version in versions if version)
        listed = ", ".join(version or "of an unknown version" for version in versions)
        yield Problem(f"this cluster's KubeRay operator is {listed}, and kuberayVersion is {wanted}", fixes=ways)


def _is_own(deployment: Mapping[str, Any], namespace: str) -> bool:
    metadata = deployment["metadata"]
    release = (metadata.get("labels") or {}).get("app.kubernetes.io/instance")
    return release == RELEASE and metadata.get("namespace") == namespace


def _foreign_crds(api: Any) -> Iterator[Problem]:
    try:
        crds.refuse_foreign(api, CRD_NAMES)
    except crds.ForeignCrdsError as error:
        yield Problem(str(error))


def _api_server(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem if the API server answers at ports that its callers' network policies do not open."""
    cluster = settings.of_cluster
    ways_of_callers = {
        "this stack's KubeRay operator": set_line("operator", "existing") if cluster.operator == "install" else "",
        "Ray's autoscaler": set_line("rayWorkers", PER_RUN) if cluster.ray_workers == AUTOSCALED else "",
    }
    callers = [caller for caller, way in ways_of_callers.items() if way]
    others = _other_api_server_ports(api) if callers else []
    if others:
        yield Problem(
            f"this cluster's API server answers at port {', '.join(map(str, others))}, and the network policies of"
            f" {' and '.join(callers)} open {', '.join(map(str, API_SERVER_PORTS))} alone; without them",
            fixes=(" && ".join(ways_of_callers[caller] for caller in callers),),
        )


def _other_api_server_ports(api: Any) -> list[int]:
    """Return the API server's ports that no network policy opens; empty if the user may not read the ports."""
    ports = {port for _, port in _api_server_endpoints(api)}
    return sorted(ports - set(API_SERVER_PORTS))


def servers(api: Any) -> Servers:
    """Return the addresses of the cluster's own servers. A server's addresses are left out if the user may not read
    them. Raise KubeError if the cluster does not answer.

    The API server's are also left out in a cluster with Cilium, because in Cilium a node's address belongs to no
    address range, unless Cilium is configured otherwise. Source:
    https://docs.cilium.io/en/stable/network/kubernetes/policy/.
    """
    endpoints = set() if kube.find(api, "/apis/cilium.io") else _api_server_endpoints(api)
    of_api = _readable(api, SERVICES.format("default"), fieldSelector="metadata.name=kubernetes")
    fronts = {
        (address, int(port["port"]))
        for each in of_api
        for address in _addresses(each)
        for port in each["spec"]["ports"]
    }
    of_dns = _readable(api, SERVICES.format("kube-system"), labelSelector="k8s-app=kube-dns")
    dns = {address for each in of_dns for address in _addresses(each) if ":" not in address}
    return Servers(tuple(sorted(endpoints | fronts)) if endpoints and fronts else (), tuple(sorted(dns)))


def _api_server_endpoints(api: Any) -> set[tuple[str, int]]:
    """Return the addresses and ports at which the API server itself answers; empty if the user may not read them."""
    return {
        (str(address), int(port["port"]))
        for each in _readable(api, ENDPOINTS, labelSelector="kubernetes.io/service-name=kubernetes")
        for endpoint in each.get("endpoints") or ()
        for address in endpoint["addresses"]
        for port in each.get("ports") or ()
    }


def _readable(api: Any, path: str, **query: str) -> list[dict[str, Any]]:
    """Return the objects of a list; empty if the list does not exist or the user may not read it. Raise KubeError for
    any other failure."""
    try:
        return kube.items(api, path, **query)
    except KubeError as error:
        if error.status not in (403, 404):
            raise
        return []


def _addresses(service: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a Service; empty for a headless Service, which has no address of its own."""
    return [address for address in service["spec"].get("clusterIPs") or () if address != "None"]


def operator_versions(deployments: Iterable[Mapping[str, Any]], namespace: str) -> list[str]:
    """Return the versions of the KubeRay operators that watch a namespace. A version is empty if the tag of the
    operator's image does not name a version."""
    versions = []
    for deployment in deployments:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            watched = [arg.removeprefix(_WATCH) for arg in container.get("args") or [] if arg.startswith(_WATCH)]
            if not watched or namespace in watched[0].split(","):
                tag = re.search(r":v?(\d+\.\d+\.\d+[\w.-]*)(?:@|$)", container["image"])
                versions.append(tag.group(1) if tag else "")
    return sorted(set(versions))


def _priority_class(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem if the cluster lacks the PriorityClass that the pods name. Without it no pod would be created,
    and nothing would say so.

    If the user may not read PriorityClasses, no problem is yielded.
    """
    name = settings.of_cluster.pod_template.spec.get("priorityClassName")
    if not name or not _is_absent(api, f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"):
        return
    ways = ("kubectl get priorityclasses", "pulumi config rm podTemplate")
    yield Problem(f"the cluster has no PriorityClass {name}, which the file of podTemplate names", fixes=ways)


def _is_absent(api: Any, path: str) -> bool:
    """Return whether the cluster lacks an object; False if the user may not read it. Raise KubeError otherwise."""
    try:
        return kube.find(api, path) is None
    except KubeError as error:
        if error.status != 403:
            raise
        return False


def _pod_monitors(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem if the cluster is known to have no CRD for PodMonitors. The user may be unable to read CRDs."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POD_MONITOR_CRD}"
    if settings.of_cluster.monitoring != EXISTING or not _is_absent(api, path):
        return
    ways = (set_line("monitoring", PROMETHEUS), "pulumi config rm monitoring")
    yield Problem(
        f"monitoring is {EXISTING}, and this cluster has no PodMonitors ({POD_MONITOR_CRD}): no Prometheus Operator"
        " is installed",
        fixes=ways,
    )


def _readers(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem if the namespace of the existing Prometheus does not exist. If the user may not read namespaces,
    no problem is yielded."""
    cluster = settings.of_cluster
    if cluster.monitoring != EXISTING or not _is_absent(api, f"/api/v1/namespaces/{cluster.monitoring_namespace}"):
        return
    yield Problem(
        f"monitoringNamespace is {cluster.monitoring_namespace}, and this cluster has no such namespace: network"
        " policies would open Ray's ports to nobody; it is the namespace of your Prometheus",
        fixes=(f'pulumi config set monitoringNamespace "$({_FIRST_PROMETHEUS})"', set_line("monitoring", PROMETHEUS)),
    )


def queue(api: Any, settings: Settings) -> Iterator[Problem]:
    """Yield a problem if the cluster has no Kueue, or the namespace has no LocalQueue of this name, or Kueue reports it
    as inactive. Whether the quota is enough is left to Kueue. If the user may not read queues, no problem is yielded.
    Raise KubeError if the cluster does not answer."""
    cluster, without = settings.of_cluster, "pulumi config rm queue"
    name, namespace = cluster.queue, cluster.namespace
    if not name or unseen_queue(api, settings):
        return
    served = kueue.version(api)
    queues = kueue.local_queues(api, served, namespace) if served else {}
    if not served:
        yield Problem(f"queue is {name}, and this cluster has no Kueue", fixes=(without,))
    elif name not in queues:
        ways = [set_line("queue", each) for each in sorted(queues)] or ["kubectl get localqueues --all-namespaces"]
        listed = f"it has {', '.join(sorted(queues))}" if queues else "it has none"
        if not queues and cluster.create_namespace and _is_absent(api, f"/api/v1/namespaces/{namespace}"):
            listed += "; both are there before the stack"
            ways.append(set_line("createNamespace", "false"))
        yield Problem(f"namespace {namespace} has no LocalQueue {name}: {listed}", fixes=(*ways, without))
    elif why := kueue.why_inactive(queues[name]):
        yield Problem(f"LocalQueue {name} admits nothing: {why}", fixes=(without,))


def unseen_queue(api: Any, settings: Settings) -> str:
    """Return a sentence that says that this user may not read whether the queue exists; empty if the user may. Raise
    KubeError if the cluster does not answer."""
    name, namespace = settings.of_cluster.queue, settings.of_cluster.namespace
    try:
        if name and (served := kueue.version(api)):
            kueue.local_queues(api, served, namespace)
    except KubeError as error:
        if error.status != 403:
            raise
        return (
            f"whether namespace {namespace} has the LocalQueue {name} is not known: {error}. Without one everything"
            " waits until `up` gives up; to see it you need `list` on localqueues"
        )
    return ""


def nodes(api: Any, settings: Settings) -> dict[str, Size]:
    """Return what each usable node offers to pods, by its name. Raise KubeError if the cluster does not answer."""
    return gpu_nodes.offered(kube.items(api, "/api/v1/nodes"), settings)


def spread(settings: Settings, sizes: Sequence[Size]) -> str:
    """Return a description of how the arms' workers will probably be spread over nodes of these sizes, if the arms
    differ in this; empty if they do not."""
    return unlike_spreads(_measurement(settings), sizes, [RESERVED] * len(sizes))


def _measurement(settings: Settings) -> Measurement:
    measurement = measurement_of(settings.recipe, settings.run.worker_memory, settings.of_cluster, settings.arms)
    return replace(measurement, gpus_apart=bool(settings.recipe.worker_gpus))


def _fit(api: Any, settings: Settings) -> Iterator[Problem]:
    all_nodes = kube.items(api, "/api/v1/nodes")
    yield from gpu_nodes.open_to_others(all_nodes, settings)
    sizes_by_name = gpu_nodes.offered(all_nodes, settings)
    sizes = list(sizes_by_name.values())
    measurement = _measurement(settings)
    if shortage := gpu_shortage(measurement, sizes):
        yield Problem(shortage, fixes=gpu_nodes.ways(measurement, sizes))
        return
    kept = [RESERVED] * len(sizes)
    arms = cluster_fit(measurement, sizes, kept)
    if not arms:
        return
    listed = "; ".join(f"{name} {size}" for name, size in sizes_by_name.items())
    workers = settings.recipe.workers
    ways = without_arms_line(arms_to_leave_out(measurement, lambda smaller: not cluster_fit(smaller, sizes, kept)))
    fewer = (n for n in range(workers - 1, 0, -1) if not cluster_fit(replace(measurement, workers=n), sizes, kept))
    if largest := largest_worker(measurement, sizes, kept):
        ways.append(worker_line(largest.at_most(measurement.worker)))
    ways += [set_line("workers", count) for count in islice(fewer, 1)]
    yield Problem(
        f"the pods of {', '.join(arms)}, together with a Ray cluster of {counted(workers, 'worker')}, do not fit"
        f" the nodes that they may use ({listed or 'none'}), minus {RESERVED} each for other pods",
        fixes=(*ways, set_line("allowOversubscription", "true")),
        liftable=True,
    )
