"""`rwi jobs dashboard`: says where the Ray dashboard of a stack's cluster answers, and forwards it if it must be.

A Minikube's NodePort is reached from Linux, but not from macOS and Windows, and `kubernetes` has none.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any

from cli.look import cluster, ray_cluster
from cli.look.status import node_port_of
from cli.setup.project import ToolError, say
from infra.places.cluster.api import kube, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.port_forward import connection
from infra.places.cluster.api.ray_api import RayError
from infra.places.cluster.manifests import dashboard, monitoring
from infra.places.cluster.manifests.ray_cluster import DASHBOARD_PORT
from training.machine.command_line import rwi
from training.machine.port_forward import LOOPBACK, copy_both_ways


def is_reachable(address: str, port: int) -> bool:
    """Return whether something accepts connections at this address."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def forward(api: Any, namespace: str, listener: socket.socket) -> None:
    """Forward each connection of the listener to the head of Ray that runs at that moment, without end."""
    while True:
        accepted, _ = listener.accept()
        threading.Thread(target=_serve, args=(api, namespace, accepted), daemon=True).start()


def _serve(api: Any, namespace: str, accepted: socket.socket) -> None:
    from kubernetes.client.exceptions import ApiException

    with accepted:
        try:
            pod = ray_api.head(api, namespace)
            with connection(api, namespace, pod, DASHBOARD_PORT) as remote:
                copy_both_ways(accepted, remote)
        except (KubeError, ApiException, OSError) as error:
            say(f"a connection was closed: {error}")


def show(stack: str, overrides: Mapping[str, str]) -> int:
    """Print the dashboard's address, and the command that prints its token. If needed, forward connections until
    Ctrl-C. Return the exit status."""
    if ray := ray_cluster.find(stack, overrides):
        print(ray.dashboard)
        return 0
    stack_cluster = cluster.find(stack, overrides)
    api = cluster.connect(stack_cluster)
    token = dashboard.token_command(stack_cluster.kubeconfig, stack_cluster.namespace)
    of_metrics = monitoring.addresses(stack_cluster.cluster, stack_cluster.kubeconfig)
    more = "".join(f"\n{line}" for line in of_metrics)
    try:
        ray_api.head(api, stack_cluster.namespace)
        node_port = node_port_of(stack_cluster, kube.items(api, "/api/v1/nodes"))
    except (KubeError, RayError) as error:
        raise ToolError(f"stack {stack_cluster.stack}: {error}:  {rwi('status', stack_cluster.stack)}") from None
    if node_port and is_reachable(*node_port):
        print(f"dashboard: {dashboard.node_port_url(*node_port)}\nits token: {token}{more}")
        return 0
    try:
        listener = socket.create_server((LOOPBACK, DASHBOARD_PORT))
    except OSError as error:
        raise ToolError(f"port {DASHBOARD_PORT} of {LOOPBACK} can't be used ({error}): end what uses it") from None
    print(f"dashboard: {dashboard.FORWARDED_URL}, until Ctrl-C\nits token: {token}{more}", flush=True)
    with listener:
        forward(api, stack_cluster.namespace, listener)
    return 0
