"""Ray's dashboard as a Service, and how a person reaches it. Pure: dicts and texts, no Pulumi."""

import shlex

from infra.places.cluster.manifests.pod_parts import Manifest
from infra.places.cluster.manifests.ray_cluster import DASHBOARD_PORT, HEAD_LABELS, TOKEN_KEY, TOKEN_SECRET

NAME = "ray-dashboard"
NODE_PORT = 30265
"""The dashboard's port on the nodes of a cluster that the stack owns, where no other Service can have it."""


def service(*, at_nodes: bool) -> Manifest:
    """Return the spec of the dashboard's Service: a NodePort Service with `at_nodes`, a ClusterIP Service without. It
    exposes no other port of the head."""
    port: Manifest = {"name": "dashboard", "port": DASHBOARD_PORT, "targetPort": DASHBOARD_PORT, "protocol": "TCP"}
    if at_nodes:
        port["nodePort"] = NODE_PORT
    return {
        "type": "NodePort" if at_nodes else "ClusterIP",
        "selector": dict(HEAD_LABELS),
        "ports": [port],
    }


def node_port_url(address: str, node_port: int = NODE_PORT) -> str:
    """Return the dashboard's URL at a port that all nodes open; `address` is the address of one node."""
    return f"http://{address}:{node_port}"


FORWARDED_URL = f"http://127.0.0.1:{DASHBOARD_PORT}"
"""The dashboard's URL while `rwi jobs dashboard` runs."""


def in_project(command: str) -> str:
    """Return a command line that works in the project's folder, and in any other folder if PROJECT is set to the
    project's folder. No output contains the folder itself, because it differs between machines."""
    return f'(cd "${{PROJECT:-.}}" && {command})'


def token_command(kubeconfig: str, namespace: str) -> str:
    """Return the command line that prints the token of Ray's dashboard. No output contains the token itself."""
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
