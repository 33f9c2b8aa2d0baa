"""Reads the RayCluster's start-up time from its status. Runs reuse the cluster, so it is in none of their clocks.

Read together with a finished run's log, and only during an update.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from infra.places.cluster.api.kube import KubeError, connect, read
from infra.places.cluster.manifests.ray_cluster import API_VERSION, NAME
from training.contract.result import TrainingResult

PROVISIONED = "RayClusterProvisioned"
"""KubeRay's condition that all pods were ready for the first time; it never changes afterwards."""
REASON = "rayClusterStartSeconds"


def with_cluster_start(run_result: TrainingResult, kubeconfig: str, namespace: str) -> TrainingResult:
    """Add the cluster's start-up time to the result of a Ray run, or the reason why it is unknown. Fails no run."""
    if run_result.ray_head is None:
        return run_result
    try:
        path = f"/apis/{API_VERSION}/namespaces/{namespace}/rayclusters/{NAME}"
        seconds = start_seconds(json.loads(read(connect(kubeconfig), path)))
    except (KubeError, ValueError) as error:
        return replace(run_result, reasons=run_result.reasons | {REASON: f"the RayCluster could not be read: {error}"})
    return replace(run_result, ray_head=replace(run_result.ray_head, cluster_start_seconds=seconds))


def start_seconds(cluster: Mapping[str, Any]) -> float:
    """Return the seconds from the creation of a RayCluster to its first readiness, whole ones as Kubernetes keeps them.

    Raises ValueError if its status does not say.
    """
    conditions = cluster.get("status", {}).get("conditions", [])
    ready = [each for each in conditions if each.get("type") == PROVISIONED and each.get("status") == "True"]
    created = cluster.get("metadata", {}).get("creationTimestamp")
    if not ready or not created:
        raise ValueError(f"it has no condition {PROVISIONED}")
    return (_time(ready[0]["lastTransitionTime"]) - _time(created)).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
