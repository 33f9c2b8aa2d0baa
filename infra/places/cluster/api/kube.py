"""A connection to the cluster with the Python client, and the stack's own kubeconfig file. For what Pulumi's provider
cannot do.

Objects are plain dicts as the API server writes them: this project needs only a few of their fields.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.programs import UserError
from training.contract.provenance import PROJECT

CONNECT_SECONDS = 4.0
"""Connect timeout: two TCP retransmissions, so an unreachable server is reported quickly."""
SECONDS = 10.0
"""Timeout for each answer."""
MOST_LOG = 64 * 2**20
"""Bytes of a log that are read: a kubelet keeps 10 MiB of it, unless it is told otherwise."""
MANAGER = "ray-worth-it"
"""The field manager of the fields that this project sets by itself."""


class KubeError(UserError):
    """A refusal or a failure of the cluster or of the connection; `status` is HTTP's, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


PLUGIN_SECONDS = "PULUMI_K8S_CLIENT_TIMEOUT"
"""The environment variable that limits each request of Pulumi's Kubernetes plugin, in seconds; 32 for the first by
default.

Not an input of the provider: an update must not give up on a creation that a webhook takes its time for.
"""


def patience(verb: str) -> str:
    """Say that Pulumi's plugin keeps retrying, for a command that has already reported an unreachable server."""
    return f"Pulumi's Kubernetes plugin retries for up to a minute; to wait less:\n  {PLUGIN_SECONDS}=4 pulumi {verb}"


def own_path(stack: str) -> str:
    """Return the path of a stack's own kubeconfig, relative to the project: git-ignored, mode 0600, on every target."""
    return str(Path(".state", "kubeconfig", stack))


def own_text(stack: str) -> str | None:
    """Return the content of the stack's own file; None if there is none."""
    try:
        return (PROJECT / own_path(stack)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def own_folder() -> Path:
    """Return the folder of the stacks' own files, created for this user alone if it is missing."""
    folder = PROJECT / own_path("any").rpartition("/")[0]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_own(stack: str, text: str) -> None:
    """Write the stack's own file atomically: it holds credentials, so nobody else may read it at any moment."""
    folder = own_folder()
    partial = folder / f".{stack}.{os.getpid()}"
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / stack)
    finally:
        partial.unlink(missing_ok=True)


def remove_own(stack: str) -> None:
    """Remove the stack's own file if it exists."""
    (PROJECT / own_path(stack)).unlink(missing_ok=True)


def client(kubeconfig: str | Mapping[str, Any], *, retries: int | None = None) -> Any:
    """Return an API client for the current context of a file, by its path in the project, or of a file's content."""
    from kubernetes import config
    from kubernetes.client import Configuration

    settings = Configuration()
    settings.retries = retries
    if isinstance(kubeconfig, str):
        return config.new_client_from_config(config_file=str(PROJECT / kubeconfig), client_configuration=settings)
    return config.new_client_from_config_dict(dict(kubeconfig), persist_config=False, client_configuration=settings)


def connect(kubeconfig: str | Mapping[str, Any]) -> Any:
    """Return a client that fails fast without a cluster. Raises KubeError for a kubeconfig that cannot be used."""
    from kubernetes.config import ConfigException

    try:
        return client(kubeconfig, retries=0)
    except (ConfigException, OSError, ValueError, TypeError, KeyError) as error:
        raise KubeError(f"the kubeconfig can't be used ({error})") from None


def read(api: Any, path: str, query: Mapping[str, str | int] | None = None, accept: str = "*/*") -> bytes:
    """Return the API server's answer for `path`. Raises KubeError."""
    chosen = list((query or {}).items())
    headers = {"Accept": accept}
    return _send(api, path, api.param_serialize("GET", path, query_params=chosen, header_params=headers, **_AUTH))


def patch(api: Any, path: str, change: Mapping[str, Any]) -> None:
    """Merge a change into one object (RFC 7396). Raises KubeError."""
    headers, query = {"Accept": "*/*", "Content-Type": "application/merge-patch+json"}, [("fieldManager", MANAGER)]
    line = api.param_serialize("PATCH", path, query_params=query, header_params=headers, body=dict(change), **_AUTH)
    _send(api, path, line)


def apply(api: Any, path: str, wanted: Mapping[str, Any]) -> None:
    """Create or change one object by a server-side apply. Raises KubeError."""
    headers = {"Accept": "*/*", "Content-Type": "application/apply-patch+yaml"}
    query = [("fieldManager", MANAGER), ("force", "true")]
    line = api.param_serialize("PATCH", path, query_params=query, header_params=headers, body=dict(wanted), **_AUTH)
    _send(api, path, line)


def create(api: Any, path: str, item: Mapping[str, Any]) -> None:
    """Create an object in the collection at `path`. Raises KubeError."""
    headers = {"Accept": "*/*", "Content-Type": "application/json"}
    _send(api, path, api.param_serialize("POST", path, header_params=headers, body=item, **_AUTH))


def dry_run(api: Any, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the API server, and all that it asks, would make of an object; nothing is created. Raises
    KubeError."""
    headers, query = {"Accept": "*/*", "Content-Type": "application/json"}, [("dryRun", "All")]
    line = api.param_serialize("POST", path, query_params=query, header_params=headers, body=item, **_AUTH)
    return dict(json.loads(_send(api, path, line)))


def delete(api: Any, path: str, *, at_once: bool = False) -> None:
    """Delete an object, then those that it owns; a missing one is no error. Raises KubeError.

    `at_once`: for a pod, which gets no time to end.
    """
    query, headers = [("propagationPolicy", "Background")], {"Accept": "*/*"}
    query += [("gracePeriodSeconds", "0")] if at_once else []
    try:
        _send(api, path, api.param_serialize("DELETE", path, query_params=query, header_params=headers, **_AUTH))
    except KubeError as error:
        if error.status != 404:
            raise


_AUTH: dict[str, Any] = {"auth_settings": ["BearerToken"]}


def _send(api: Any, path: str, line: tuple[Any, ...]) -> bytes:
    from urllib3.exceptions import HTTPError

    try:
        answer = api.call_api(*line, _request_timeout=(CONNECT_SECONDS, SECONDS))
        content = bytes(answer.read())
    except (HTTPError, OSError) as error:
        raise no_answer(api, error) from None
    if answer.status >= 400:
        raise KubeError(f"{path}: {_reason(content) or answer.reason} (HTTP {answer.status})", answer.status)
    return content


def no_answer(api: Any, error: Exception) -> KubeError:
    """Return the error for a request that ended with `error` and without an answer, with what to try."""
    host = api.configuration.host
    return KubeError(
        f"{host} does not answer ({_shortly(error)}). Start it, or check the connection (VPN, firewall); to test it:\n"
        f"  curl --insecure --max-time 5 {host}/version"
    )


def get(api: Any, path: str, **query: str | int) -> Any:
    """Return the API server's answer for `path`, parsed. Raises KubeError."""
    return json.loads(read(api, path, query))


def find(api: Any, path: str) -> dict[str, Any] | None:
    """Return the object at `path`; None if there is none. Raises KubeError."""
    try:
        return dict(get(api, path))
    except KubeError as error:
        if error.status != 404:
            raise
        return None


def statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the statuses of all containers of a pod, init containers first."""
    return [
        status for kind in ("initContainerStatuses", "containerStatuses") for status in pod["status"].get(kind) or ()
    ]


def items(api: Any, path: str, **query: str | int) -> list[dict[str, Any]]:
    """Return the objects of a list. Raises KubeError."""
    return list(get(api, path, **query)["items"])


def metadata(api: Any, path: str) -> dict[str, Any]:
    """Return the metadata of one object without the rest: a CRD is megabytes. Raises KubeError."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    return dict(json.loads(read(api, path, accept=accept))["metadata"])


def log(api: Any, namespace: str, pod: str, **query: str | int) -> str:
    """Return the log of a pod's container, at most its first MOST_LOG bytes. Raises KubeError."""
    query = {"limitBytes": MOST_LOG, **query}
    return read(api, f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query).decode(errors="replace")


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()[:200]


def _shortly(error: Exception) -> str:
    """Return the innermost reason: urllib3 wraps it in its own words and addresses."""
    reason = getattr(error, "reason", None) or error
    text = reason.args[-1] if reason.args and isinstance(reason.args[-1], str) else str(reason)
    return text.rpartition(": ")[2]
