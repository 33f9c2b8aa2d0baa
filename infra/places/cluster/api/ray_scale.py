"""Gives the RayCluster its workers for one run, and takes them away after it (`rayWorkers per-run`).

Nobody keeps ownership of what it changes: an update of the program would conflict with another owner of
`.spec.workerGroupSpecs`, which is one list to Kubernetes.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from infra.places.cluster.api import kube, waits
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.api.ray_api import is_ready as pod_is_ready
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS, WORKER_LABELS
from infra.programs import UserError

MARK = "ray-worth-it/workers-for"
"""The RayCluster's annotation with the name of the run for which the workers are. It stays if that run did not end."""
UP_SECONDS = 900.0
"""The most seconds to wait for the workers, as for a RayCluster: nodes may be added, and images fetched."""
DOWN_SECONDS = 120.0
POLL_SECONDS = 0.25
ASK_RAY_SECONDS = 1.0
PHASES = ("created", "scheduled", "image", "ready")
"""The phases of the workers' start, in order. They are reached when all workers have: a pod; a node; a first container
that is no longer waiting; a raylet that is alive."""
_OF_WORKERS = ",".join(f"{key}={value}" for key, value in WORKER_LABELS.items())

Pod = Mapping[str, Any]


class ScaleError(UserError):
    """Raised if Ray's workers did not start, or did not end."""


def up(api: Any, namespace: str, run: str, workers: int, seconds: float = UP_SECONDS) -> dict[str, float]:
    """Ask for the workers, wait until the raylet of each is alive, and return the seconds that each phase took.

    Raise ScaleError if the workers do not start; then no worker is asked for any more. Raise KubeError if the cluster
    does not answer.
    """
    began = time.monotonic()
    _ask_for(api, namespace, workers, run)
    cluster = existing(api, namespace)
    patience = waits.Patience(lambda reason: print(f"{run}: {reason}", flush=True), is_new=False)
    reached: dict[str, float] = {}
    alive = _Alive(api, namespace)
    pods: Sequence[Pod] = ()
    while len(reached) < len(PHASES):
        pods = [pod for pod in worker_pods(api, namespace) if "deletionTimestamp" not in pod["metadata"]]
        elapsed = time.monotonic() - began
        for phase in PHASES[len(reached) :]:
            if sum(_has_reached(phase, pod, alive) for pod in pods) < workers:
                break
            reached[phase] = elapsed
        if len(reached) < len(PHASES):
            in_vain = patience.look(api, namespace, cluster, pods, workers)
            if in_vain or elapsed > seconds:
                _ask_for(api, namespace, 0, run)
                alive_workers = sum(_has_reached("ready", pod, alive) for pod in pods)
                raise ScaleError(
                    _why_not(run, f"{alive_workers} of {workers}", elapsed, in_vain or "; ".join(waiting(pods)))
                )
        time.sleep(POLL_SECONDS)
    ends = [reached[phase] for phase in PHASES]
    return {phase: end - before for phase, end, before in zip(PHASES, ends, [0.0, *ends], strict=False)}


def down(api: Any, namespace: str, *, ended: bool) -> None:
    """Ask for no workers, and wait until the workers' pods are gone. Raise ScaleError if they stay, and KubeError if
    the cluster does not answer.

    `ended` says whether the run that needed the workers has ended. If not, the mark stays, and the next update asks for
    the workers again.
    """
    _ask_for(api, namespace, 0, None if ended else _mark(read_cluster(api, namespace)))
    _wait(api, namespace)


def _wait(api: Any, namespace: str) -> None:
    deadline = time.monotonic() + DOWN_SECONDS
    while pods := worker_pods(api, namespace):
        if time.monotonic() > deadline:
            names = ", ".join(pod["metadata"]["name"] for pod in pods)
            raise ScaleError(f"Ray's workers do not end ({names}); they hold what the next run needs. Retry: pulumi up")
        time.sleep(POLL_SECONDS)


def take_away_left(api: Any, namespace: str) -> str:
    """Remove the workers that a failed or interrupted run left. Return the name of that run, or empty if no workers
    were left.

    Raise ScaleError if the workers stay, and KubeError if the cluster does not answer.
    """
    cluster = read_cluster(api, namespace)
    mark = _mark(cluster)
    if not mark or not cluster or not (asked_for(cluster) or worker_pods(api, namespace)):
        return ""
    down(api, namespace, ended=False)
    return mark


def marked_for(api: Any, namespace: str) -> str:
    """Return the last run that had workers, if it did not end; otherwise empty. Raise KubeError if that fails."""
    return _mark(read_cluster(api, namespace)) or ""


class _Alive:
    """Knows which raylets are alive, because it asks Ray itself. It knows of no raylet while Ray's dashboard does not
    answer.

    Kubernetes learns about a raylet later, by a probe that asks first after ten seconds, and then every five.
    """

    def __init__(self, api: Any, namespace: str) -> None:
        self._ray = ForwardedJobs(api, namespace)
        self._addresses: frozenset[str] = frozenset()
        self._asked_at = -ASK_RAY_SECONDS

    def has(self, pod: Pod) -> bool:
        """Return whether the pod's raylet is alive."""
        if time.monotonic() - self._asked_at >= ASK_RAY_SECONDS:
            self._addresses = self._ask()
            self._asked_at = time.monotonic()
        return pod["status"].get("podIP") in self._addresses

    def _ask(self) -> frozenset[str]:
        try:
            nodes = self._ray.nodes()
        except (OSError, ValueError, KeyError, TypeError):
            return frozenset()
        return frozenset(str(node["node_ip"]) for node in nodes if node["state"] == "ALIVE")


def _has_reached(phase: str, pod: Pod, alive: _Alive) -> bool:
    if phase == "scheduled":
        return bool(pod["spec"].get("nodeName"))
    if phase == "image":
        return any("waiting" not in each["state"] for each in kube.statuses(pod))
    return phase == "created" or pod_is_ready(pod) or alive.has(pod)


def _why_not(run: str, alive: str, seconds: float, reasons: str) -> str:
    """Return a sentence that says how many workers are alive, and what the other workers wait for."""
    because = f": {reasons}" if reasons else ""
    return f"{run}: after {seconds:.0f} s {alive} Ray workers were there{because}. None is asked for now"


def waiting(pods: Sequence[Pod]) -> list[str]:
    """Return the reasons why pods wait, for a node or for an image. Each reason occurs once."""
    return list(dict.fromkeys(reason for pod in pods for reason in waits.reasons(pod)))


def _ask_for(api: Any, namespace: str, workers: int, run: str | None) -> None:
    """Set the number of workers and the mark, then give up the ownership of both fields."""
    cluster = existing(api, namespace) if workers else read_cluster(api, namespace)
    if cluster is None:
        return
    groups = [{**_group(cluster), "replicas": workers}]
    change = {"metadata": {"annotations": {MARK: run}}, "spec": {"workerGroupSpecs": groups}}
    kube.patch(api, _path(namespace), change)
    owners = (read_cluster(api, namespace) or {}).get("metadata", {}).get("managedFields", [])
    others = [owner for owner in owners if owner.get("manager") != kube.MANAGER]
    kube.patch(api, _path(namespace), {"metadata": {"managedFields": others}})


def asked_for(cluster: Mapping[str, Any]) -> int:
    """Return the number of workers that KubeRay is asked to run."""
    return int(_group(cluster).get("replicas") or 0)


def _group(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    (group,) = cluster["spec"]["workerGroupSpecs"]
    return dict(group)


def _mark(cluster: Mapping[str, Any] | None) -> str | None:
    return ((cluster or {}).get("metadata", {}).get("annotations") or {}).get(MARK)


def read_cluster(api: Any, namespace: str) -> dict[str, Any] | None:
    """Return the RayCluster; None if it does not exist. Raise KubeError if the cluster does not answer or refuses."""
    return kube.find(api, _path(namespace))


def existing(api: Any, namespace: str) -> dict[str, Any]:
    """Return the RayCluster. Raise ScaleError if it does not exist, and KubeError if it cannot be read."""
    cluster = read_cluster(api, namespace)
    if cluster is None:
        raise ScaleError(
            f"there is no RayCluster in namespace {namespace}: it was deleted by other means than this stack."
            " To recreate it:\n  pulumi refresh --yes\n  pulumi up"
        )
    return cluster


def is_ready(cluster: Mapping[str, Any], workers: int) -> bool:
    """Return whether KubeRay reports that the head and `workers` workers are ready. If `workers` is 0, only the head
    counts, because workers of a run may still be there."""
    status = cluster.get("status", {})
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    return "HeadPodReady" in true and (not workers or status.get("readyWorkerReplicas") == workers)


def all_pods(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Return the pods of the RayCluster that are not being deleted. Raise KubeError if that fails."""
    chosen = ",".join(f"{key}={value}" for key, value in CLUSTER_LABELS.items())
    pods = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=chosen)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def worker_pods(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Return the pods of the RayCluster's workers, including pods that wait for a node and pods that are being deleted.
    Raise KubeError if the cluster does not answer or refuses."""
    return kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_OF_WORKERS)


def _path(namespace: str) -> str:
    return f"/apis/{ray_cluster.API_VERSION}/namespaces/{namespace}/rayclusters/{ray_cluster.NAME}"
