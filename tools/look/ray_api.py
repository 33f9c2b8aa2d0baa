"""What Ray says of itself, asked through the API server: works wherever kubectl does. The token is never shown."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

from infra.places.cluster import kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.port_forward import connection
from infra.places.cluster.ray_cluster_spec import DASHBOARD_PORT, HEAD_LABELS, TOKEN_KEY, TOKEN_SECRET

SECONDS = 10


class RayError(Exception):
    """Why Ray's dashboard can't be asked."""


def head(api: Any, namespace: str) -> str:
    """The name of the head's pod that runs; raises RayError when there is none, and KubeError."""
    selector = ",".join(f"{key}={value}" for key, value in HEAD_LABELS.items())
    pods = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
    running = [str(pod["metadata"]["name"]) for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        raise RayError("no pod of Ray's head runs")
    return running[0]


def ask(api: Any, namespace: str, path: str) -> Any:
    """What the dashboard answers to a GET, parsed; raises RayError."""
    from kubernetes.client.exceptions import ApiException

    try:
        pod, token = head(api, namespace), _token(api, namespace)
        with connection(api, namespace, pod, DASHBOARD_PORT) as socket:
            socket.settimeout(SECONDS)
            dashboard = http.client.HTTPConnection("localhost", DASHBOARD_PORT)
            dashboard.sock = socket
            dashboard.request("GET", path, headers={"Authorization": f"Bearer {token}", "Connection": "close"})
            answer = dashboard.getresponse()
            body = answer.read()
    except (KubeError, ApiException, OSError, http.client.HTTPException) as error:
        raise RayError(f"Ray's dashboard can't be asked ({error})") from None
    if answer.status != http.HTTPStatus.OK:
        raise RayError(f"Ray's dashboard answers {path} with HTTP {answer.status}")
    return json.loads(body)


def nodes(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Ray's nodes, dead ones too; raises RayError."""
    return list(ask(api, namespace, "/api/v0/nodes")["data"]["result"]["result"])


def jobs(api: Any, namespace: str) -> list[dict[str, Any]]:
    """Ray's jobs, from its Job Submission API; raises RayError."""
    return list(ask(api, namespace, "/api/jobs/"))


def _token(api: Any, namespace: str) -> str:
    secret = kube.get(api, f"/api/v1/namespaces/{namespace}/secrets/{TOKEN_SECRET}")
    return base64.b64decode(secret["data"][TOKEN_KEY]).decode()
