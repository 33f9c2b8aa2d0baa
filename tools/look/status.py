"""`make status`: the nodes, the pods, Ray and the runs of a stack's cluster as they are now. Reads; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.places.cluster import dashboard_spec, kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.ray_api import ForwardedJobs
from infra.places.cluster.ray_cluster_spec import NAME as RAY_CLUSTER
from report import terminal
from tools.look import cluster, ray_cluster
from tools.look.cluster import StackCluster
from tools.look.status_view import Ray, render
from tools.setup.project import ToolError, run_main
from tools.stack import settings as stack_settings


@dataclass(frozen=True)
class Status:
    """Objects of the cluster as the API server writes them, and what Ray says."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    ray: Ray


def read(api: Any, namespace: str) -> Status:
    """All of it; raises KubeError."""
    here = f"/namespaces/{namespace}"
    return Status(
        nodes=kube.items(api, "/api/v1/nodes"),
        pods=kube.items(api, f"/api/v1{here}/pods"),
        jobs=kube.items(api, f"/apis/batch/v1{here}/jobs"),
        ray=_ray(api, namespace),
    )


def _ray(api: Any, namespace: str) -> Ray:
    try:
        found = kube.get(api, f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{RAY_CLUSTER}")
    except KubeError as error:
        if error.status != 404:
            raise
        return Ray(None, [], [], "there is no RayCluster yet")
    try:
        asked = ForwardedJobs(api, namespace)
        return Ray(found, asked.nodes(), asked.jobs(), "")
    except OSError as error:
        return Ray(found, [], [], str(error))


def node_port_of(found: StackCluster, nodes: list[dict[str, Any]]) -> tuple[str, int] | None:
    """Address and port of a node at which Ray's dashboard answers; None where it is reached by forwarding alone."""
    addresses = [one["address"] for node in nodes for one in node["status"].get("addresses") or []
                 if one["type"] == "InternalIP"]  # fmt: skip
    return found.place.dashboard_address(found.settings, addresses[0]) if addresses else None


def endpoint(found: StackCluster, nodes: list[dict[str, Any]]) -> str:
    """Where Ray's dashboard answers, for people."""
    node_port = node_port_of(found, nodes)
    if node_port:
        return dashboard_spec.node_port_url(*node_port)
    return f"{dashboard_spec.FORWARDED_URL} while `STACK={found.stack} make dashboard` runs"


def main() -> int:
    """Print the status of the cluster of STACK; 1 when it can't be asked."""
    stack, overrides = stack_settings.asked("status", __doc__)
    if ray := ray_cluster.find(stack, overrides):
        terminal.write(ray.status())
        return 0
    found = cluster.find(stack, overrides)
    api = cluster.connect(found)
    try:
        status = read(api, found.namespace)
    except KubeError as error:
        raise ToolError(f"stack {found.stack}: {error}") from None
    name = f"{found.name} at {api.configuration.host}, namespace {found.namespace}"
    token = dashboard_spec.token_command(found.kubeconfig, found.namespace)
    lines = [
        f"stack {found.stack}: {name}",
        *render(status.nodes, status.pods, status.jobs, status.ray),
        "",
        f"dashboard: {endpoint(found, status.nodes)}",
        f"its token: {token}",
    ]
    terminal.write("\n".join(lines))
    return 0


if __name__ == "__main__":
    run_main(main)
