"""`rwi status`: the nodes, the pods, Ray and the runs of a stack's cluster as they are now. Reads; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.look import cluster, ray_cluster
from cli.look.cluster import StackCluster
from cli.look.status_view import Ray, render
from cli.setup.project import ToolError
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.manifests import dashboard
from infra.places.cluster.manifests.ray_cluster import NAME as RAY_CLUSTER
from report import terminal
from training.machine.command_line import rwi


@dataclass(frozen=True)
class Status:
    """Objects of the cluster as the API server returns them, and what Ray reports."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    ray: Ray


def read(api: Any, namespace: str) -> Status:
    """Return the objects of the cluster and what Ray reports. Raise KubeError if the cluster cannot be asked."""
    here = f"/namespaces/{namespace}"
    return Status(
        nodes=kube.items(api, "/api/v1/nodes"),
        pods=kube.items(api, f"/api/v1{here}/pods"),
        jobs=kube.items(api, f"/apis/batch/v1{here}/jobs"),
        ray=_ray(api, namespace),
    )


def _ray(api: Any, namespace: str) -> Ray:
    try:
        ray_cluster_object = kube.get(api, f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{RAY_CLUSTER}")
    except KubeError as error:
        if error.status != 404:
            raise
        return Ray(None, [], [], "there is no RayCluster yet")
    try:
        forwarded = ForwardedJobs(api, namespace)
        return Ray(ray_cluster_object, forwarded.nodes(), forwarded.jobs(), "")
    except OSError as error:
        return Ray(ray_cluster_object, [], [], str(error))


def node_port_of(stack_cluster: StackCluster, nodes: list[dict[str, Any]]) -> tuple[str, int] | None:
    """Return the node's address and port at which Ray's dashboard answers; None if it has to be forwarded."""
    addresses = [address["address"] for node in nodes for address in node["status"].get("addresses") or []
                 if address["type"] == "InternalIP"]  # fmt: skip
    return stack_cluster.place.dashboard_address(stack_cluster.settings, addresses[0]) if addresses else None


def endpoint(stack_cluster: StackCluster, nodes: list[dict[str, Any]]) -> str:
    """Return the address of Ray's dashboard, as a text for users."""
    node_port = node_port_of(stack_cluster, nodes)
    if node_port:
        return dashboard.node_port_url(*node_port)
    return f"{dashboard.FORWARDED_URL} while `{rwi('jobs dashboard', stack_cluster.stack)}` runs"


def show(stack: str, overrides: Mapping[str, str]) -> int:
    """Print the status of the cluster, and return the exit status. Raise ToolError if the cluster cannot be asked."""
    if ray := ray_cluster.find(stack, overrides):
        terminal.write(ray.status())
        return 0
    stack_cluster = cluster.find(stack, overrides)
    api = cluster.connect(stack_cluster)
    try:
        status = read(api, stack_cluster.namespace)
    except KubeError as error:
        raise ToolError(f"stack {stack_cluster.stack}: {error}") from None
    name = f"{stack_cluster.name} at {api.configuration.host}, namespace {stack_cluster.namespace}"
    token = dashboard.token_command(stack_cluster.kubeconfig, stack_cluster.namespace)
    lines = [
        f"stack {stack_cluster.stack}: {name}",
        *render(status.nodes, status.pods, status.jobs, status.ray),
        "",
        f"dashboard: {endpoint(stack_cluster, status.nodes)}",
        f"its token: {token}",
    ]
    terminal.write("\n".join(lines))
    return 0
