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
"""The RayCluster's annotation with the run that its workers are for; it stays when that run did not end."""
UP_SECONDS = 900.0
"""As long as Pulumi waits for a RayCluster: nodes may be added, and images fetched."""
DOWN_SECONDS = 120.0
POLL_SECONDS = 0.25
ASK_RAY_SECONDS = 1.0
PHASES = ("created", "scheduled", "image", "ready")
"""What all workers have reached, in order: a pod, a node, a first container, a raylet that is alive."""
_OF_WORKERS = ",".join(f"{key}={value}" for key, value in WORKER_LABELS.items())

Pod = Mapping[str, Any]


class ScaleError(UserError):
    """Ray's workers did not start, or did not end."""


def up(api: Any, namespace: str, run: str, workers: int, seconds: float = UP_SECONDS) -> dict[str, float]:
    """Ask for the workers, and wait until the raylet of each is alive; returns the seconds of each phase.

    Raises ScaleError, and no worker is asked for then; KubeError.
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
    """Ask for no workers, and wait until their pods are gone. Raises ScaleError and KubeError.

    `ended`: the run they were for did; otherwise the mark stays, and the next update asks for them again.
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
    """Take away the workers that a failed or interrupted run left; returns that run, "" for none.

    Raises ScaleError and KubeError.
    """
    cluster = read_cluster(api, namespace)
    mark = _mark(cluster)
    if not mark or not cluster or not (asked_for(cluster) or worker_pods(api, namespace)):
        return ""
    down(api, namespace, ended=False)
    return mark


def marked_for(api: Any, namespace: str) -> str:
    """Return the run that had workers last, and did not end; "" for none. Raises KubeError."""
    return _mark(read_cluster(api, namespace)) or ""


class _Alive:
    """The addresses of the raylets that Ray itself calls alive. Empty where its dashboard does not answer.

    Kubernetes hears of a raylet by a probe that first asks after ten seconds; then every five.
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
    """Say how many workers are there, and what the others wait for."""
    because = f": {reasons}" if reasons else ""
    return f"{run}: after {seconds:.0f} s {alive} Ray workers were there{because}. None is asked for now"


def waiting(pods: Sequence[Pod]) -> list[str]:
    """Return what pods wait for, a node or an image, each once."""
    return list(dict.fromkeys(reason for pod in pods for reason in waits.reasons(pod)))


def _ask_for(api: Any, namespace: str, workers: int, run: str | None) -> None:
    """Set the number of workers and the mark; give back the ownership of both."""
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
    """Return the number of workers that KubeRay is to have."""
    return int(_group(cluster).get("replicas") or 0)


def _group(cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    (group,) = cluster["spec"]["workerGroupSpecs"]
    return dict(group)


def _mark(cluster: Mapping[str, Any] | None) -> str | None:
    return ((cluster or {}).get("metadata", {}).get("annotations") or {}).get(MARK)


def read_cluster(api: Any, namespace: str) -> dict[str, Any] | None:
    """Return the RayCluster; None if there is none. Raises KubeError."""
    return kube.find(api, _path(namespace))


def existing(api: Any, namespace: str) -> dict[str, Any]:
    """Return the RayCluster. Raises ScaleError if there is none, and KubeError."""
    cluster = read_cluster(api, namespace)
    if cluster is None:
        raise ScaleError(
            f"there is no RayCluster in namespace {namespace}: it was deleted by other means than this stack."
            " To recreate it:\n  pulumi refresh --yes\n  pulumi up"
        )
    return cluster


def is_ready(cluster: Mapping[str, Any], workers: int) -> bool:
    """Return whether a RayCluster's head is ready, and so many workers, as KubeRay reports it. Without a number of
    workers that are always there, those of a run may still be."""
    status = cluster.get("status", {})
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    return "HeadPodReady" in true and (not workers or status.get("readyWorkerReplicas") == workers)


def all_pods(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Return the pods of the RayCluster that do not end. Raises KubeError."""
    chosen = ",".join(f"{key}={value}" for key, value in CLUSTER_LABELS.items())
    pods = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=chosen)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def worker_pods(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Return the pods of its workers, those that wait for a node and those that end, too. Raises KubeError."""
    return kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_OF_WORKERS)


def _path(namespace: str) -> str:
    return f"/apis/{ray_cluster.API_VERSION}/namespaces/{namespace}/rayclusters/{ray_cluster.NAME}"
