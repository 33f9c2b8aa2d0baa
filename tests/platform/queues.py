"""Kueue's queues in a cluster of processes: what tests make of them, and what Kueue says of what waits there."""

from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from tests.platform.cluster import Cluster
from tests.platform.stacks import VALUES
from tests.unit.kueue_objects import group
from tests.unit.settings_machine import settings

API = "kueue.x-k8s.io/v1beta2"
QUEUE, HIGH = "training", "high"
ROOMY = {"cpu": "64", "memory": "256Gi"}
POOL = {"test/pool": "training"}
"""What Kueue adds to the pods that it admits: their nodes' label, and a toleration."""


def of(kind: str, name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One of Kueue's objects."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, **({"spec": spec} if spec else {}), **more}


def give(cluster: Cluster, name: str, amounts: dict[str, str], **more: Any) -> None:
    """Let the ClusterQueue have this quota, and make it if it is not there."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    spec = {"namespaceSelector": {}, "resourceGroups": [group({"default": amounts})], "preemption": preemption, **more}
    kube.apply(cluster.api, f"/apis/{API}/clusterqueues/{name}", of("ClusterQueue", name, spec))


def is_active(queue: dict[str, Any]) -> bool:
    """Whether Kueue has seen this ClusterQueue or LocalQueue as it is now, and lets workloads into it."""
    said = {each["type"]: each for each in queue.get("status", {}).get("conditions", ())}
    active: dict[str, Any] = said.get("Active", {})
    return ("True", queue["metadata"]["generation"]) == (active.get("status"), active.get("observedGeneration"))


def quota_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """The ClusterQueue."""
    return dict(kube.find(cluster.api, f"/apis/{API}/clusterqueues/{name}") or {})


def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    """The Jobs of the namespace."""
    return kube.items(cluster.api, cluster.path("batch/v1/jobs"))


def stack(cluster: Cluster, **values: str) -> Any:
    """The settings of a stack in the queue."""
    return settings(**{**VALUES, "queue": QUEUE, "namespace": cluster.namespace, **values})


def job_of_somebody(name: str, amounts: dict[str, str], **labels: str) -> dict[str, Any]:
    """Somebody's Job in the queue, whose one pod needs these resources."""
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    resources = {"requests": amounts, "limits": amounts}
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "a:1", "resources": resources, "securityContext": strict}],
    }
    template = {"metadata": {"annotations": {"test/run": "60s"}}, "spec": pod}
    metadata = {"name": name, "labels": {QUEUE_LABEL: QUEUE, **labels}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def workloads(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """The Workloads of objects of a kind."""
    found = kube.items(cluster.api, cluster.path(f"{API}/workloads"))
    return [each for each in found if each["metadata"]["ownerReferences"][0]["kind"] == kind]


def reserved(workload: dict[str, Any]) -> bool | None:
    """Whether it has its quota; None if Kueue has not tried."""
    said = {each["type"]: each["status"] for each in workload.get("status", {}).get("conditions", ())}
    return said["QuotaReserved"] == "True" if "QuotaReserved" in said else None
