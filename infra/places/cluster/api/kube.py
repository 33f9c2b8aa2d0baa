"""A connection to the cluster with the Python client, and the stack's own kubeconfig file. For what Pulumi's provider
cannot do.

Objects are plain dicts as the API server writes them: this project needs only a few of their fields.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.programs import UserError
from training.contract.codec import write_whole
from training.contract.provenance import PROJECT

CONNECT_SECONDS = 4.0
"""The seconds to wait for a connection: enough for two TCP retransmissions, and soon over if nothing is reachable."""
SECONDS = 10.0
"""The seconds to wait for each answer."""
RETRY_SECONDS = 2
"""The most seconds to wait before a busy server is asked again, if the server names a time. API Priority and Fairness
names one second."""
MOST_LOG = 64 * 2**20
"""The most bytes of a log that are read. A kubelet keeps 10 MiB of a log, unless it is configured otherwise."""
MANAGER = "ray-worth-it"
"""The field manager under which this project sets fields itself."""


class KubeError(UserError):
    """Raised if a request is refused or fails. `status` is the HTTP status, or 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


PLUGIN_SECONDS = "PULUMI_K8S_CLIENT_TIMEOUT"
"""The environment variable that limits each request of Pulumi's Kubernetes plugin, in seconds. By default the first
request is limited to 32.

The limit is no input of the provider, because an update must not give up while a webhook delays the creation of an
object.
"""


def patience(verb: str) -> str:
    """Return a sentence that says that Pulumi's plugin keeps retrying, and how to wait less. It is for a command that
    has already reported an unreachable server."""
    return f"Pulumi's Kubernetes plugin retries for up to a minute; to wait less:\n  {PLUGIN_SECONDS}=4 pulumi {verb}"


def own_path(stack: str) -> str:
    """Return the path of the stack's own kubeconfig file, relative to the project's folder. On every target, git
    ignores the file, and its mode is 0600."""
    return str(Path(".state", "kubeconfig", stack))


def own_text(stack: str) -> str | None:
    """Return the content of the stack's own kubeconfig file; None if the file does not exist."""
    try:
        return (PROJECT / own_path(stack)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def own_folder() -> Path:
    """Return the folder of all stacks' own kubeconfig files. A missing folder is created, for this user alone."""
    folder = PROJECT / own_path("any").rpartition("/")[0]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_own(stack: str, text: str) -> None:
    """Write the stack's own kubeconfig file atomically. It holds credentials, which nobody else may ever read."""
    write_whole(own_folder() / stack, text, mode=0o600)


def remove_own(stack: str) -> None:
    """Remove the stack's own kubeconfig file, if it exists."""
    (PROJECT / own_path(stack)).unlink(missing_ok=True)


def client(kubeconfig: str | Mapping[str, Any], *, retries: Any = None) -> Any:
    """Return an API client for the current context of a kubeconfig: a file's path in the project, or its content."""
    from kubernetes import config
    from kubernetes.client import Configuration

    settings = Configuration()
    settings.retries = retries
    if isinstance(kubeconfig, str):
        api = config.new_client_from_config(config_file=str(PROJECT / kubeconfig), client_configuration=settings)
    else:
        api = config.new_client_from_config_dict(dict(kubeconfig), persist_config=False, client_configuration=settings)
    _strip_tokens(api.configuration)
    return api


def _strip_tokens(configuration: Any) -> None:
    """Make the client remove the line break at the end of a `tokenFile`, as kubectl does. No HTTP header may contain a
    line break, and the error about it would show the token. The client sets the token, and this hook, again for each
    request."""
    refresh = configuration.refresh_api_key_hook

    def refresh_and_strip(configuration: Any) -> None:
        refresh(configuration)
        configuration.refresh_api_key_hook = refresh_and_strip
        configuration.api_key = {name: key.strip() for name, key in configuration.api_key.items()}

    if refresh:
        configuration.refresh_api_key_hook = refresh_and_strip


def connect(kubeconfig: str | Mapping[str, Any]) -> Any:
    """Return a client that fails quickly without an answer. Raise KubeError if the kubeconfig cannot be used."""
    from kubernetes.config import ConfigException
    from kubernetes.dynamic import DynamicClient
    from urllib3 import Retry

    # Only where the server says when to ask again (429 and 503 with Retry-After), and soon. No redirect is followed.
    retries = Retry(
        2, connect=0, read=0, redirect=0, other=0,
        raise_on_redirect=False, raise_on_status=False, retry_after_max=RETRY_SECONDS,
    )  # fmt: skip
    try:
        # Without discovery: that asks three more times at each connection, waits for ever for a server that accepts it
        # and says nothing, and keeps the answers in a file of the temporary folder that has the server's address alone.
        return DynamicClient(client(kubeconfig, retries=retries), discoverer=lambda *_: None)
    except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError) as error:
        raise KubeError(f"the kubeconfig can't be used ({error})") from None


def patch(api: Any, path: str, change: Mapping[str, Any]) -> None:
    """Merge a change into one object (RFC 7396). Raise KubeError if the cluster does not answer or refuses."""
    _ask(api, "PATCH", path, body=change, content_type="application/merge-patch+json", field_manager=MANAGER)


def apply(api: Any, path: str, wanted: Mapping[str, Any]) -> None:
    """Create or change one object by a server-side apply. Raise KubeError if the cluster does not answer or refuses."""
    content_type = "application/apply-patch+yaml"
    _ask(api, "PATCH", path, body=wanted, content_type=content_type, field_manager=MANAGER, force_conflicts=True)


def create(api: Any, path: str, item: Mapping[str, Any]) -> None:
    """Create an object in the collection at `path`. Raise KubeError if the cluster does not answer or refuses."""
    _ask(api, "POST", path, body=item)


def delete(api: Any, path: str, *, at_once: bool = False) -> None:
    """Delete an object, and then the objects that it owns. A missing object is no error. Raise KubeError if the cluster
    does not answer or refuses.

    `at_once` is for a pod: the pod then gets no time to end by itself.
    """
    try:
        _ask(api, "DELETE", path, propagation_policy="Background", grace_period_seconds=0 if at_once else None)
    except KubeError as error:
        if error.status != 404:
            raise


def _json(api: Any, method: str, path: str, **request: Any) -> dict[str, Any]:
    """Return the parsed answer. Raise KubeError if the answer is not a JSON object, as the page of a proxy or of
    another server."""
    content = _ask(api, method, path, **request)
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _no_api_server(api, path, "is no JSON object", 200)
    return answer


def _no_api_server(api: Any, path: str, why: str, status: int) -> KubeError:
    host = api.configuration.host
    return KubeError(
        f"{host} answers, and not as an API server does ({path} {why}): check `server` in the kubeconfig, and"
        f" the proxy; to see the answer:\n  curl --insecure --max-time 5 {host}{path}",
        status,
    )


def _ask(api: Any, method: str, path: str, **request: Any) -> bytes:
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        answer = api.request(method, path, serialize=False, _request_timeout=(CONNECT_SECONDS, SECONDS), **request)
        return bytes(answer.data)
    except ApiException as error:
        if 300 <= error.status < 400:
            raise _no_api_server(api, path, "is elsewhere", error.status) from None
        raise KubeError(f"{path}: {_reason(error.body) or error.reason} (HTTP {error.status})", error.status) from None
    except (HTTPError, OSError) as error:
        raise no_answer(api, error) from None


def no_answer(api: Any, error: Exception) -> KubeError:
    """Return the error for a request that ended with `error` and without an answer. It says what the user can try."""
    host = api.configuration.host
    return KubeError(
        f"{host} does not answer ({_shortly(error)}). Start it, or check the connection (VPN, firewall); to test it:\n"
        f"  curl --insecure --max-time 5 {host}/version"
    )


def get(api: Any, path: str, **query: str | int) -> dict[str, Any]:
    """Return the API server's parsed answer for `path`. Raise KubeError if the server does not answer or refuses."""
    return _json(api, "GET", path, query_params=list(query.items()))


def find(api: Any, path: str) -> dict[str, Any] | None:
    """Return the object at `path`; None if there is no such object. Raise KubeError for any other failure."""
    try:
        return get(api, path)
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
    """Return the objects of the list at `path`. Raise KubeError if the answer is not a list."""
    listed = get(api, path, **query)
    if "items" not in listed:
        raise _no_api_server(api, path, "is no list", 200)
    return list(listed["items"] or ())


def metadata(api: Any, path: str) -> dict[str, Any]:
    """Return only the metadata of one object, because whole objects such as CRDs may have megabytes. Raise KubeError if
    the server does not answer or refuses."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    return dict(_json(api, "GET", path, header_params={"Accept": accept})["metadata"])


def log(api: Any, namespace: str, pod: str, **query: str | int) -> str:
    """Return the log of a pod's container, at most its first MOST_LOG bytes. Raise KubeError if that fails."""
    path, limited = f"/api/v1/namespaces/{namespace}/pods/{pod}/log", {"limitBytes": MOST_LOG, **query}
    return _ask(api, "GET", path, query_params=list(limited.items())).decode(errors="replace")


def _reason(content: str | None) -> str:
    try:
        return str(json.loads(content or "")["message"] or "")
    except (ValueError, KeyError, TypeError):
        return (content or "").strip()[:200]


def _shortly(error: Exception) -> str:
    """Return the innermost reason of an error, without the texts and addresses in which urllib3 wraps the reason."""
    reason = getattr(error, "reason", None) or error
    return str(reason.args[-1] if reason.args else reason).rpartition(": ")[2]
