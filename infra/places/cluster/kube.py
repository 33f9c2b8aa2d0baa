"""A connection to the cluster with the Python client, and the stack's own kubeconfig file. For what Pulumi's provider
can't do.

Objects are read as the API server writes them, as plain dicts: what this project needs of one is a few of its fields.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.contract.provenance import PROJECT

CONNECT_SECONDS = 4.0
"""For a connection: time for a lost packet to be sent again twice. What nothing answers is so said in time."""
SECONDS = 10.0
"""For each answer."""
MANAGER = "ray-worth-it"
"""Of the fields that this project sets by itself."""


class KubeError(Exception):
    """What the cluster, or the way to it, answered instead; `status` is HTTP's, 0 where nothing answered."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


PLUGIN_SECONDS = "PULUMI_K8S_CLIENT_TIMEOUT"
"""Environment variable of Pulumi's Kubernetes plugin: for each request, where 32 is its default for the first ones.

Not an input of the provider: an update must not give up on a creation that a webhook takes its time for.
"""


def patience(verb: str) -> str:
    """That Pulumi's own requests are not this program's, for a command that has already said that nothing answers."""
    return (
        "Pulumi's Kubernetes plugin goes on trying, for a minute at most; to wait less:\n"
        f"  {PLUGIN_SECONDS}=4 pulumi {verb}"
    )


def own_path(stack: str) -> str:
    """The file with which a stack's cluster is reached, whatever made it: ignored, 0600, from the project's folder."""
    return str(Path(".state", "kubeconfig", stack))


def own_text(stack: str) -> str | None:
    """What the stack's own file holds; None without one."""
    try:
        return (PROJECT / own_path(stack)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def own_folder() -> Path:
    """The folder of the stacks' own files, made for this user alone where it is not there."""
    folder = PROJECT / own_path("any").rpartition("/")[0]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_own(stack: str, text: str) -> None:
    """Write the stack's own file whole: it holds credentials, so at no moment may anybody else read it."""
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
    """Remove the stack's own file, where there is one."""
    (PROJECT / own_path(stack)).unlink(missing_ok=True)


def client(kubeconfig: str | Mapping[str, Any], *, retries: int | None = None) -> Any:
    """An API client: of the current context of a file, whose path starts at the project, or of a file's content."""
    from kubernetes import config
    from kubernetes.client import Configuration

    settings = Configuration()
    settings.retries = retries
    if isinstance(kubeconfig, str):
        return config.new_client_from_config(config_file=str(PROJECT / kubeconfig), client_configuration=settings)
    return config.new_client_from_config_dict(dict(kubeconfig), persist_config=False, client_configuration=settings)


def connect(kubeconfig: str | Mapping[str, Any]) -> Any:
    """A client that fails fast where there is no cluster; raises KubeError for a kubeconfig that can't be used."""
    from kubernetes.config import ConfigException

    try:
        return client(kubeconfig, retries=0)
    except (ConfigException, OSError, ValueError, TypeError, KeyError) as error:
        raise KubeError(f"the kubeconfig can't be used ({error})") from None


def read(api: Any, path: str, query: Mapping[str, str | int] | None = None, accept: str = "*/*") -> bytes:
    """What the API server has at `path`; raises KubeError."""
    chosen = list((query or {}).items())
    headers = {"Accept": accept}
    return _send(api, path, api.param_serialize("GET", path, query_params=chosen, header_params=headers, **_AUTH))


def patch(api: Any, path: str, change: Mapping[str, Any]) -> None:
    """Merge a change into one object (RFC 7396); raises KubeError."""
    headers = {"Accept": "*/*", "Content-Type": "application/merge-patch+json"}
    _send(api, path, api.param_serialize("PATCH", path, header_params=headers, body=change, **_AUTH))


def apply(api: Any, path: str, wanted: Mapping[str, Any]) -> None:
    """Make one object so, whether it is there or not, by a server-side apply; raises KubeError."""
    headers = {"Accept": "*/*", "Content-Type": "application/apply-patch+yaml"}
    query = [("fieldManager", MANAGER), ("force", "true")]
    line = api.param_serialize("PATCH", path, query_params=query, header_params=headers, body=dict(wanted), **_AUTH)
    _send(api, path, line)


def create(api: Any, path: str, item: Mapping[str, Any]) -> None:
    """Make an object of the collection at `path`; raises KubeError."""
    headers = {"Accept": "*/*", "Content-Type": "application/json"}
    _send(api, path, api.param_serialize("POST", path, header_params=headers, body=item, **_AUTH))


def delete(api: Any, path: str, *, at_once: bool = False) -> None:
    """Delete an object, and what it owns after it; one that is gone is no error. Raises KubeError.

    `at_once`: a pod, which gets no time to end.
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
    """What to say, and to try, where a request ended with `error` and without an answer."""
    host = api.configuration.host
    return KubeError(
        f"{host} does not answer ({_shortly(error)}). Start it, or the way to it (VPN, firewall); whether it answers:\n"
        f"  curl --insecure --max-time 5 {host}/version"
    )


def get(api: Any, path: str, **query: str | int) -> Any:
    """What the API server has at `path`, parsed; raises KubeError."""
    return json.loads(read(api, path, query))


def find(api: Any, path: str) -> dict[str, Any] | None:
    """The same; None where it has nothing there."""
    try:
        return dict(get(api, path))
    except KubeError as error:
        if error.status != 404:
            raise
        return None


def statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of all containers of a pod, those first that run before its own."""
    return [
        status for kind in ("initContainerStatuses", "containerStatuses") for status in pod["status"].get(kind) or ()
    ]


def items(api: Any, path: str, **query: str | int) -> list[dict[str, Any]]:
    """The objects of a list; raises KubeError."""
    return list(get(api, path, **query)["items"])


def metadata(api: Any, path: str) -> dict[str, Any]:
    """The metadata of one object: a CRD is megabytes; raises KubeError."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    return dict(json.loads(read(api, path, accept=accept))["metadata"])


def log(api: Any, namespace: str, pod: str, **query: str | int) -> str:
    """The log of a pod's container; raises KubeError."""
    return read(api, f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query).decode(errors="replace")


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()[:200]


def _shortly(error: Exception) -> str:
    """The innermost reason: urllib3 wraps it in its own words and addresses."""
    reason = getattr(error, "reason", None) or error
    text = reason.args[-1] if reason.args and isinstance(reason.args[-1], str) else str(reason)
    return text.rpartition(": ")[2]
