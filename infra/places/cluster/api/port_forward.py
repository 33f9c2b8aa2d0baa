"""Connects to a port of a pod through the API server: for a dashboard that no network reaches, on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def connection(api: Any, namespace: str, pod: str, port: int) -> Iterator[Any]:
    """Yield a socket that is connected to the pod's port. The connection serves one caller and is closed at the end.
    Errors of the Kubernetes client are raised as they are."""
    from kubernetes.client import ApiClient, CoreV1Api
    from kubernetes.stream import portforward

    # The package replaces a method of the client while it opens a connection: one of its own, so that others can ask.
    own = CoreV1Api(ApiClient(api.configuration))
    forwarded = portforward(own.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port))
    try:
        yield forwarded.socket(port)
    finally:
        forwarded.close()
