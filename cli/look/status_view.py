"""The status of a cluster as text. Pure: objects as the API server and Ray's dashboard write them, lines out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.api.nodes import allocatable, is_ready
from infra.places.cluster.fit import GIB
from infra.places.cluster.manifests.pod_parts import RUN_LABEL
from report.terminal import columns
from training.launch.ray.other_jobs import is_unfinished, job_name

Objects = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Ray:
    """The RayCluster, and what Ray itself reports. `note` says why Ray cannot be asked."""

    cluster: Mapping[str, Any] | None
    nodes: Objects
    jobs: Objects
    note: str


def render(nodes: Objects, pods: Objects, jobs: Objects, ray: Ray, now: datetime | None = None) -> list[str]:
    """Return the lines of the status: nodes, pods, Ray, and the run in progress."""
    now = now or datetime.now(UTC)
    parts = [
        columns(("node", "state", "CPUs", "memory", "Kubernetes"), [_node(item) for item in nodes]),
        columns(("pod", "node", "phase", "restarts", "age"), [_pod(item, now) for item in pods]),
        _ray(ray),
        [_current_job(jobs, now)],
    ]
    return [line for part in parts for line in ("", *part)]


def _node(node: Mapping[str, Any]) -> tuple[str, ...]:
    size = allocatable(node)
    state = ("Ready" if is_ready(node) else "NotReady") + (", cordoned" if node["spec"].get("unschedulable") else "")
    version = node["status"]["nodeInfo"]["kubeletVersion"]
    return node["metadata"]["name"], state, f"{size.cpus:g}", f"{size.memory_bytes / GIB:.1f} GiB", version


def _pod(pod: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    containers = pod["status"].get("containerStatuses") or []
    restarts = sum(status["restartCount"] for status in containers)
    node = pod["spec"].get("nodeName", "–")
    return pod["metadata"]["name"], node, phase(pod), str(restarts), age(pod["metadata"]["creationTimestamp"], now)


def phase(pod: Mapping[str, Any]) -> str:
    """Return the pod's phase, with the reason if a container or the scheduler gives one: Pending (ErrImagePull)."""
    reasons = []
    for container in kube.statuses(pod):
        state = container.get("state") or {}
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        reasons += [reason] if reason and reason != "Completed" else []
    if not reasons:
        conditions = pod["status"].get("conditions") or []
        reasons = [
            condition["reason"]
            for condition in conditions
            if condition["type"] == "PodScheduled" and condition.get("reason")
        ]
    deleted = pod["metadata"].get("deletionTimestamp")
    word = "Terminating" if deleted else pod["status"].get("phase", "Unknown")
    return f"{word} ({', '.join(dict.fromkeys(reasons))})" if reasons else str(word)


def _ray(ray: Ray) -> list[str]:
    if ray.cluster is None:
        return [f"Ray: {ray.note}"]
    status = ray.cluster.get("status") or {}
    ready, wanted = status.get("readyWorkerReplicas", 0), status.get("desiredWorkerReplicas", 0)
    lines = [
        f"RayCluster {ray.cluster['metadata']['name']}: {status.get('state') or 'not ready'},"
        f" {ready} of {wanted} workers, Ray {ray.cluster['spec'].get('rayVersion', '–')}"
    ]
    if ray.note:
        return [*lines, ray.note]
    return [*lines, *ray_lines(ray.nodes, ray.jobs)]


def ray_lines(nodes: Objects, jobs: Objects) -> list[str]:
    """Return a table of Ray's nodes, and a line with the running jobs."""
    lines = columns(("Ray node", "kind", "state", "CPUs", "memory"), [_ray_node(node) for node in nodes])
    running = [job_name(job) for job in jobs if is_unfinished(job)]
    return [*lines, f"Ray job: {', '.join(running) or 'none runs'}"]


def _ray_node(node: Mapping[str, Any]) -> tuple[str, ...]:
    kind = "head" if node.get("is_head_node") else "worker"
    total = node.get("resources_total") or {}
    memory = f"{total['memory'] / GIB:.1f} GiB" if "memory" in total else "–"
    return str(node["node_ip"]), kind, str(node["state"]).lower(), f"{total.get('CPU', 0):g}", memory


def _current_job(jobs: Objects, now: datetime) -> str:
    """Return a line about the Job of the run that goes on: there is one at most."""
    for job in jobs:
        if (job.get("status") or {}).get("active"):
            run = job["spec"]["template"]["metadata"]["labels"].get(RUN_LABEL, "not a run of this project")
            name, since = job["metadata"]["name"], age(job["metadata"]["creationTimestamp"], now)
            return f"current job: {name} ({run}), for {since}"
    done = [job for job in jobs if (job.get("status") or {}).get("succeeded")]
    failed = [job for job in jobs if (job.get("status") or {}).get("failed")]
    return f"current job: none ({len(done)} succeeded, {len(failed)} failed)"


def age(stamp: str, now: datetime) -> str:
    """Return the time since a Kubernetes timestamp, in the largest unit that fits at least twice."""
    return duration(int((now - datetime.fromisoformat(stamp)).total_seconds()))


def duration(seconds: int) -> str:
    """Return a duration in the largest unit that fits at least twice, such as `90 min`."""
    units = (("d", 86400), ("h", 3600), ("min", 60))
    return next((f"{seconds // length} {unit}" for unit, length in units if seconds >= 2 * length), f"{seconds} s")
