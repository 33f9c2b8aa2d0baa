"""What the tests of this folder make and ask in a cluster of processes."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.pod_parts import DISK, SERVICE_ACCOUNT
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.ray_cluster import RayClusterSettings
from tests.limits import wait_for
from tests.platform.programs import FAKE, LOG, Object
from tests.unit.settings_machine import machine, parse

GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
NODES, GPU_NODES = 20, 4
NODE_GPUS = 2
SECONDS = 30
"""As long as a test waits for what the cluster has to do."""
THERE = {"target": "kubernetes", "kubeContext": "bare", "image": "registry.example.com/a:1"}
VALUES = {**THERE, "workload": "script", "script": "examples/torch_ddp.py"}


def settings(workers: int, pull: str = "0s", **values: str) -> RayClusterSettings:
    """Return the RayCluster of a stack; its pods pull their image for that long."""
    of_stack = parse({**VALUES, "workers": str(workers), **values}, machine(cores=64, gib=256))
    made = pods_of(of_stack).ray_cluster
    of_all = made.placement
    slow = {"test/pull": pull}
    gpus = of_all.gpus and replace(of_all.gpus, template=replace(of_all.gpus.template, annotations=slow))
    template = replace(of_all.template, annotations=slow)
    return replace(made, placement=replace(of_all, template=template, gpus=gpus))


@dataclass(frozen=True)
class Cluster:
    """A namespace of a cluster of processes."""

    kubeconfig: str
    namespace: str
    api: Any = field(repr=False)

    def make_namespace(self) -> None:
        """Make the namespace, as strict as the project makes its own, with the account of its pods."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        kube.create(self.api, "/api/v1/namespaces", {"metadata": {"name": self.namespace, "labels": labels}})
        kube.create(self.api, self.path("v1/serviceaccounts"), {"metadata": {"name": SERVICE_ACCOUNT}})

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of a kind's objects of the namespace, such as `v1/pods`; or of one of them."""
        group, _, plural = kind.rpartition("/")
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def pods(self, **labels: str) -> list[Object]:
        """Return its pods with these labels."""
        return kube.items(self.api, self.path("v1/pods"), labelSelector=",".join(f"{k}={v}" for k, v in labels.items()))

    def workers(self) -> list[Object]:
        """Return the pods of Ray's workers."""
        return self.pods(**ray_cluster.WORKER_LABELS)

    def make_ray_cluster(self, spec: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> None:
        """Make the RayCluster of this spec."""
        metadata = {"name": ray_cluster.NAME, "labels": dict(labels or {})}
        wanted = {"apiVersion": ray_cluster.API_VERSION, "kind": ray_cluster.KIND, "metadata": metadata, "spec": spec}
        kube.create(self.api, self.path("ray.io/v1/rayclusters"), wanted)

    def set_log(self, text: str) -> None:
        """Let every pod have had this log, also those that have ended."""
        lines = (f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in text.splitlines())
        Path(self.kubeconfig).with_name(LOG).write_text("".join(lines))

    def ray_status(self) -> Object:
        """Return the RayCluster's status; empty while it has none."""
        found = kube.find(self.api, self.path("ray.io/v1/rayclusters", ray_cluster.NAME))
        return dict((found or {}).get("status") or {})

    def remove(self) -> None:
        """Delete the RayCluster and all Jobs, and wait for their pods' end."""
        kube.delete(self.api, self.path("ray.io/v1/rayclusters", ray_cluster.NAME))
        for kind in ("batch/v1/jobs", "v1/pods"):
            for each in kube.items(self.api, self.path(kind)):
                kube.delete(self.api, self.path(kind, each["metadata"]["name"]))
        wait_for(lambda: not self.pods())


def make_nodes(api: Any, kubelet: int) -> None:
    """Make the nodes, some with GPUs and the taint that is usual there, and wait until they are ready."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: kube.create(api, "/api/v1/nodes", _node(number, kubelet)), range(NODES)))
    wait_for(lambda: NODES == sum(map(_is_ready, kube.items(api, "/api/v1/nodes"))))


def _node(number: int, kubelet: int) -> Object:
    has_gpus = number < GPU_NODES
    name = f"{'gpu' if has_gpus else 'cpu'}-{number:02}"
    cpus = 8 if number % 2 else 64  # the scheduler prefers the larger ones, also for a second pod
    size = {
        "cpu": str(cpus),
        "memory": f"{8 * cpus}Gi",
        "pods": "110",
        DISK: "100Gi",
        **({GPU: str(NODE_GPUS)} if has_gpus else {}),
    }
    return {
        "metadata": {"name": name, "annotations": FAKE, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [GPU_TAINT] if has_gpus else []},
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        },
    }


def _is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether it is ready, and a pod is let onto it."""
    taints: Sequence[Mapping[str, Any]] = node["spec"].get("taints") or ()
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True" and all(taint["key"] == GPU for taint in taints)
