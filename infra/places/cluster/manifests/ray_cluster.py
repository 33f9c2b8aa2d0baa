"""The RayCluster that the ray arm runs on. Pure: dicts, no Pulumi.

The head trains nothing (`num-cpus` 0). Each worker pod holds one training worker: its `num-cpus` are that worker's
compute threads, also where its quota is a fraction of a CPU.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.places.cluster.manifests import pod_parts, ray_autoscaler
from infra.places.cluster.manifests.pod_parts import Manifest, Placement, Size
from infra.places.cluster.manifests.queue import Queue
from infra.places.cluster.manifests.storage_access import InPods

NAME = "ray-training-cluster"
HEAD_SERVICE = f"{NAME}-head-svc"
"""The head's Service, which KubeRay creates."""
TOKEN_SECRET = NAME
"""The name of the Secret with Ray's token. KubeRay creates the Secret and names it after the RayCluster."""
TOKEN_KEY = "auth_token"  # noqa: S105 (the key's name)
CLUSTER_LABELS = {"ray.io/cluster": NAME}
HEAD_LABELS = {**CLUSTER_LABELS, "ray.io/node-type": "head"}
WORKER_LABELS = {**CLUSTER_LABELS, "ray.io/node-type": "worker"}
DASHBOARD_PORT = 8265
OBJECT_STORE_BYTES = 100 * 2**20
"""The size of Ray's object store: small, as no training data passes it. By default Ray takes 30 % of the memory."""
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 (of the pod; network policies say who reaches it)
GRACE_SECONDS = 5
"""The seconds that a pod has to end by itself. Ray needs two seconds; but after training, when an actor stays, Ray
would take all 30 seconds that Kubernetes gives by default."""
AWAIT_SECONDS = 900
API_VERSION = "ray.io/v1"
KIND = "RayCluster"
REPLACE_ON = (
    "spec.headGroupSpec",
    "spec.workerGroupSpecs[0].template",
    "spec.workerGroupSpecs[0].rayStartParams",
    "spec.rayVersion",
)
"""Parts of a RayCluster whose changes KubeRay does not apply to running pods, so they replace the RayCluster. KubeRay
does apply a changed number of workers."""
AUTOSCALER_PATHS = ("spec.enableInTreeAutoscaling", "spec.autoscalerOptions")
"""Further parts of a RayCluster with Ray's autoscaler whose changes KubeRay does not apply to running pods."""
RAY_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0"}
"""The variables of Ray's pods, which send no usage statistics."""


@dataclass(frozen=True)
class RayClusterSettings:
    """The settings of a RayCluster."""

    workers: int
    head: Size
    worker: Size
    ray_version: str
    placement: Placement
    environment: Mapping[str, Any]
    """The environment variables of the training processes."""
    storage: InPods | None = None
    """The pods' access to the storage; None if no storage outlives a run."""
    per_run: bool = False
    """Whether workers exist only during a Ray run. They are declared together with the head, and `ray_scale` or Ray's
    autoscaler asks for them at each run."""
    idle_seconds: int | None = None
    """The seconds without work after which Ray's autoscaler removes a worker; None if there is no autoscaler."""
    queue: Queue | None = None
    """The queue in which the RayCluster waits for quota; None for no queue."""

    @property
    def await_seconds(self) -> int:
        """Return the seconds in which all pods have to be ready: nodes may be added, and images fetched."""
        return AWAIT_SECONDS + (self.queue.seconds if self.queue else 0)


def spec(settings: RayClusterSettings) -> Manifest:
    """Return the spec of the RayCluster. It tells Ray the number of GPUs, because KubeRay knows only NVIDIA's own
    resource. A head on a node with GPUs would also count the GPUs that NVIDIA's runtime shows to every container of an
    image with CUDA."""
    gpus = settings.placement.gpus
    of_gpus, of_head = ({"num-gpus": str(gpus.number)}, {"num-gpus": "0"}) if gpus else ({}, {})
    always = 0 if settings.per_run else settings.workers
    head = _template(settings, "ray-head", settings.head, ports=_head_ports())
    return {
        "rayVersion": settings.ray_version,
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            "rayStartParams": {"num-cpus": "0", "dashboard-host": ALL_ADDRESSES, **of_head, **_store()},
            "template": head,
        },
        **(_autoscaled(head["spec"], settings.idle_seconds) if settings.idle_seconds is not None else {}),
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                # KubeRay lowers replicas to maxReplicas without a word: the three go together.
                "replicas": always,
                "minReplicas": always,
                "maxReplicas": settings.workers,
                "rayStartParams": {"num-cpus": str(math.ceil(settings.worker.cpus)), **of_gpus, **_store()},
                # As the native arm's pods are: by what trains, and the head trains nothing.
                "template": _template(settings, "ray-worker", settings.worker, spread=WORKER_LABELS),
            }
        ],
    }


def annotations(settings: RayClusterSettings) -> dict[str, str]:
    """Return the annotations for Pulumi: Pulumi waits only until the RayCluster exists. The resource `RayReady` then
    waits for the pods, and reports what they wait for."""
    # The autoscaler's patch makes it an owner of the list of worker groups, beside which an update would conflict.
    forced = {} if settings.idle_seconds is None else {"pulumi.com/patchForce": "true"}
    return {"pulumi.com/waitFor": "jsonpath={.metadata.uid}", **forced}


def replace_on(settings: RayClusterSettings) -> list[str]:
    """Return the parts of a RayCluster whose changes KubeRay does not apply to running pods."""
    return [*REPLACE_ON, *(() if settings.idle_seconds is None else AUTOSCALER_PATHS)]


def _autoscaled(head: Manifest, idle_seconds: int) -> Manifest:
    """Return the settings that turn Ray's autoscaler on, and prepare the head's pod for it: remove its service account,
    and add the volume that only the autoscaler's container mounts."""
    (main,) = head["containers"]
    del head["serviceAccountName"]  # KubeRay makes one for it, with the autoscaler's rights
    head["volumes"] = [*head["volumes"], ray_autoscaler.volume()]
    return {"enableInTreeAutoscaling": True, "autoscalerOptions": ray_autoscaler.options(main, idle_seconds)}


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
    pod = pod_parts.pod(
        main, settings.placement, spread=spread, trains=bool(spread)
    )  # the head does not, and there is one
    pod |= {"terminationGracePeriodSeconds": GRACE_SECONDS}
    return {
        "metadata": pod_parts.metadata(settings.placement, name),
        "spec": settings.storage.mounted_in(pod) if settings.storage else pod,
    }
