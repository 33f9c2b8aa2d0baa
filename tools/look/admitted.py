"""A RayCluster that Kueue has admitted after the update had ended that was to wait for it.

Pulumi still holds it for unfinished and would write it again, which conflicts with what Kueue wrote at its admission. A
refresh makes Pulumi know, once all its pods are ready.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from infra.places.cluster.api import kube, ray_scale
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS
from tools.setup.project import say

POLL_SECONDS = 1.0
_KUEUE = "kueue"
"""Under which name Kueue writes."""
_HEAD = ",".join(f"{key}={value}" for key, value in HEAD_LABELS.items())


def wait_until_ready(stack: str, namespace: str, pinned_as: str, seconds: float = ray_scale.UP_SECONDS) -> bool:
    """Wait until all pods of an admitted RayCluster are ready; return whether they are.

    `pinned_as`: the stack's name when its kubeconfig was written. Not waited for, and False: a RayCluster that waits in
    its queue, again after Kueue evicted it, or that is gone, and a cluster that does not answer.
    """
    if kube.own_text(pinned_as) is None:
        return False
    try:
        api = kube.connect(kube.own_path(pinned_as))
        if not is_admitted(ray_scale.read_cluster(api, namespace) or {}):
            return False
    except KubeError:
        return False
    say(f"stack {stack}: Kueue has admitted the RayCluster since the last update; waiting for its pods, to go on then")
    return _wait(api, stack, namespace, seconds)


def _wait(api: Any, stack: str, namespace: str, seconds: float) -> bool:
    deadline, waits_for = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            cluster = ray_scale.read_cluster(api, namespace) or {}
            if not is_admitted(cluster) or _is_ready(cluster):
                return is_admitted(cluster)
            waits_for = _reasons(api, namespace)
        except KubeError as error:  # it answered before
            waits_for = str(error)
        time.sleep(POLL_SECONDS)
    say(f"stack {stack}: after {seconds:.0f} s not all its pods are ready{f': {waits_for}' if waits_for else ''}")
    return False


def is_admitted(cluster: Mapping[str, Any]) -> bool:
    """Return whether Kueue has admitted it: it has written into the worker groups, and has not stopped it again."""
    owners = cluster.get("metadata", {}).get("managedFields") or []
    has_written = any(
        owner.get("manager") == _KUEUE and "f:workerGroupSpecs" in owner.get("fieldsV1", {}).get("f:spec", {})
        for owner in owners
    )
    return has_written and not cluster.get("spec", {}).get("suspend")


def _is_ready(cluster: Mapping[str, Any]) -> bool:
    status = cluster.get("status", {})
    true = {each["type"] for each in status.get("conditions") or [] if each["status"] == "True"}
    return "HeadPodReady" in true and int(status.get("readyWorkerReplicas") or 0) >= ray_scale.asked_for(cluster)


def _reasons(api: Any, namespace: str) -> str:
    """Return what its pods wait for, each once."""
    heads = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_HEAD)
    pods = [*heads, *ray_scale.worker_pods(api, namespace)]
    return "; ".join(dict.fromkeys(reason for pod in pods for reason in ray_scale.reasons(pod)))
