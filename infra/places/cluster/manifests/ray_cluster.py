"""The RayCluster that the ray arm runs on. Pure: dicts, no Pulumi.

The head trains nothing (`num-cpus` 0). Each worker pod holds one training worker: its `num-cpus` are that worker's
compute threads, also where its quota is a fraction of a CPU.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.manifests.pod_parts import Manifest, Placement, Size
from infra.places.cluster.manifests.storage_access import InPods

NAME = "ray-training-cluster"
HEAD_SERVICE = f"{NAME}-head-svc"
"""The head's Service, which KubeRay creates."""
TOKEN_SECRET = NAME
"""The token's Secret, which KubeRay creates and names after the cluster."""
TOKEN_KEY = "auth_token"  # noqa: S105 (the key's name)
CLUSTER_LABELS = {"ray.io/cluster": NAME}
HEAD_LABELS = {**CLUSTER_LABELS, "ray.io/node-type": "head"}
WORKER_LABELS = {**CLUSTER_LABELS, "ray.io/node-type": "worker"}
DASHBOARD_PORT = 8265
OBJECT_STORE_BYTES = 100 * 2**20
"""Training data does not pass through the object store; Ray takes 30 % of the memory otherwise."""
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 (of the pod; network policies say who reaches it)
GRACE_SECONDS = 5
"""The time for a pod to end by itself: Ray needs two seconds, and after training all of Kubernetes' 30, for an actor
that stays."""
API_VERSION = "ray.io/v1"
KIND = "RayCluster"
REPLACE_ON = (
    "spec.headGroupSpec",
    "spec.workerGroupSpecs[0].template",
    "spec.workerGroupSpecs[0].rayStartParams",
    "spec.rayVersion",
)
"""Changes that KubeRay does not apply to running pods. It does apply a changed number of workers."""
RAY_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Variables for Ray as documented: its workers keep the niceness of 15 that Ray gives them, as on this machine."""


@dataclass(frozen=True)
class RayClusterSettings:
    """The settings of a RayCluster."""

    workers: int
    head: Size
    worker: Size
    ray_version: str
    placement: Placement
    environment: Mapping[str, Any]
    """The environment of training processes."""
    storage: InPods | None = None
    """The storage that pods are given; None if nothing outlives a run."""


def spec(settings: RayClusterSettings) -> Manifest:
    """The spec of the RayCluster."""
    return {
        "rayVersion": settings.ray_version,
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {"num-cpus": "0", "dashboard-host": ALL_ADDRESSES, **_store()},
            "template": _template(settings, "ray-head", settings.head, ports=_head_ports()),
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                # KubeRay lowers replicas to maxReplicas without a word: the three go together.
                "replicas": settings.workers,
                "minReplicas": settings.workers,
                "maxReplicas": settings.workers,
                "rayStartParams": {"num-cpus": str(math.ceil(settings.worker.cpus)), **_store()},
                # As the native arm's pods are: by what trains, and the head trains nothing.
                "template": _template(settings, "ray-worker", settings.worker, spread=WORKER_LABELS),
            }
        ],
    }


def annotations(workers: int) -> dict[str, str]:
    """Return the annotation with the conditions under which the RayCluster counts as ready."""
    ready = ["condition=HeadPodReady", f"jsonpath={{.status.readyWorkerReplicas}}={workers}"]
    return {"pulumi.com/waitFor": json.dumps(ready)}


def _store() -> Manifest:
    return {"object-store-memory": str(OBJECT_STORE_BYTES)}


def _head_ports() -> list[Manifest]:
    ports = {"gcs-server": 6379, "dashboard": DASHBOARD_PORT, "client": 10001}
    return [{"name": name, "containerPort": port} for name, port in ports.items()]


def _template(
    settings: RayClusterSettings,
    name: str,
    size: Size,
    *,
    ports: Sequence[Manifest] = (),
    spread: Mapping[str, str] | None = None,
) -> Manifest:
    environment = {**RAY_VARIABLES, **settings.environment}
    main = pod_parts.container(name, settings.placement.image, size, environment=environment)
    main |= {"ports": list(ports)} if ports else {}
    pod = pod_parts.pod(main, settings.placement, spread=spread)
    pod |= {"terminationGracePeriodSeconds": GRACE_SECONDS}
    return {
        "metadata": pod_parts.metadata(settings.placement, pod_parts.labels(name)),
        "spec": settings.storage.mounted_in(pod) if settings.storage else pod,
    }
