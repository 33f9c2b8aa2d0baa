"""Ray's dashboard as a Service, and how a person reaches it. Pure: dicts and texts, no Pulumi."""

import shlex

from infra.places.cluster.manifests.pod_parts import Manifest
from infra.places.cluster.manifests.ray_cluster import DASHBOARD_PORT, HEAD_LABELS, TOKEN_KEY, TOKEN_SECRET

NAME = "ray-dashboard"
NODE_PORT = 30265
"""The port of the nodes at which the dashboard answers in a cluster of the stack's own, where no other Service is."""


def service(*, at_nodes: bool) -> Manifest:
    """Return a NodePort Service, or a ClusterIP one; neither exposes the head's other ports."""
    port: Manifest = {"name": "dashboard", "port": DASHBOARD_PORT, "targetPort": DASHBOARD_PORT, "protocol": "TCP"}
    if at_nodes:
        port["nodePort"] = NODE_PORT
    return {
        "type": "NodePort" if at_nodes else "ClusterIP",
        "selector": dict(HEAD_LABELS),
        "ports": [port],
    }


def node_port_url(address: str, node_port: int = NODE_PORT) -> str:
    """Return the dashboard's URL at a port of the nodes; `address` is one node's."""
    return f"http://{address}:{node_port}"


FORWARDED_URL = f"http://127.0.0.1:{DASHBOARD_PORT}"
"""The dashboard's URL while `rwi jobs dashboard` runs."""


def in_project(command: str) -> str:
    """Return a command line that works in the project's folder, and elsewhere with PROJECT set to it. The folder itself
    is in no output: it would be another on each machine."""
    return f'(cd "${{PROJECT:-.}}" && {command})'


def token_command(kubeconfig: str, namespace: str) -> str:
    """Return the command line that prints the token; the token itself is in no output."""
    path = f"jsonpath={{.data.{TOKEN_KEY}}}"
    command = [
        "kubectl",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={namespace}",
        "get",
        "secret",
        TOKEN_SECRET,
        f"--output={path}",
    ]
    return f"{shlex.join(command)} | base64 --decode"
