"""Asks Ray's dashboard through the API server: works wherever kubectl does. The token is never shown."""

import base64
import http.client
import io
import urllib.error
from collections.abc import Mapping
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.port_forward import connection
from infra.places.cluster.manifests.ray_cluster import DASHBOARD_PORT, HEAD_LABELS, TOKEN_KEY, TOKEN_SECRET
from training.launch.ray import jobs_api
from training.launch.ray.jobs_api import JobsApi
from training.launch.ray.other_jobs import is_of_measurement, is_unfinished, job_name, running_others
from training.machine.retries import retry

SECONDS = 10
ATTEMPTS, PAUSE_SECONDS = 3, 5
"""The number of attempts to ask a head that is ready, and the pause between them. A head may answer late, because it
shares its CPU with the processes that it starts."""
UPLOAD_SECONDS = 120
"""The seconds to wait for the answer to an upload. A package of 100 MiB passes through three processes of the head."""

_HEADS = ",".join(f"{key}={value}" for key, value in HEAD_LABELS.items())


class RayError(OSError):
    """Raised if Ray's dashboard cannot be asked; the message says why."""


def head(api: Any, namespace: str) -> str:
    """Return the name of the head's running pod. Raise RayError if none runs, and KubeError if that cannot be asked."""
    if pod := _head(api, namespace):
        return str(pod["metadata"]["name"])
    raise RayError("no pod of Ray's head runs")


def namespaces(api: Any) -> list[str]:
    """Return the namespaces with a pod of Ray's head whose RayCluster has the name that this project gives. Raise
    KubeError if the cluster does not answer or refuses."""
    pods = kube.items(api, "/api/v1/pods", labelSelector=_HEADS)
    return sorted({str(pod["metadata"]["namespace"]) for pod in pods})


def _head(api: Any, namespace: str) -> Mapping[str, Any] | None:
    pods = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_HEADS)
    return next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes reports the pod as ready. KubeRay's readiness probe asks Ray's dashboard."""
    conditions = pod["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


class ForwardedJobs(JobsApi):
    """Ray's Job Submission API of the RayCluster in a namespace.

    Each request opens a connection of its own, so that the head is found again after a restart.
    """

    def __init__(self, api: Any, namespace: str) -> None:
        super().__init__("", "")
        self._api, self._namespace = api, namespace

    def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Return the dashboard's answer. Raise RayError if it cannot be asked, and urllib's HTTPError if it refuses."""
        from kubernetes.client.exceptions import ApiException

        try:
            pod, token = head(self._api, self._namespace), _token(self._api, self._namespace)
            with connection(self._api, self._namespace, pod, DASHBOARD_PORT) as socket:
                socket.settimeout(SECONDS if content is None else UPLOAD_SECONDS)
                dashboard = http.client.HTTPConnection("localhost", DASHBOARD_PORT)
                dashboard.sock = socket
                dashboard.request(method, path, content, jobs_api.headers(token) | {"Connection": "close"})
                answer = dashboard.getresponse()
                body = answer.read()
        except (KubeError, ApiException, OSError, http.client.HTTPException) as error:
            raise RayError(f"Ray's dashboard can't be asked ({error})") from None
        if answer.status != http.HTTPStatus.OK:
            reason = f"Ray's dashboard answers {path} with {answer.reason}"
            raise urllib.error.HTTPError(path, answer.status, reason, answer.headers, io.BytesIO(body))
        return body


def jobs_of_others(api: Any, namespace: str, stack: str) -> list[Mapping[str, Any]]:
    """Return the running jobs on the RayCluster that the stack did not submit; empty if no head is ready, for example
    after a fault.

    Raise RayError if the head is ready but does not answer; the message has the command line that ends whatever runs on
    the head.
    """
    pod = _head(api, namespace)
    if pod is None or not is_ready(pod):
        return []

    def pause(attempt: int, _: Exception) -> float | None:
        return None if attempt == ATTEMPTS else PAUSE_SECONDS

    try:
        return retry(lambda: running_others(ForwardedJobs(api, namespace).jobs(), stack), (OSError,), pause)
    except OSError as error:
        reason = error
    delete = f"kubectl --kubeconfig={kube.own_path(stack)} delete pod {pod['metadata']['name']} --namespace={namespace}"
    raise RayError(
        f"could not find out whether somebody else's job runs on the Ray cluster ({reason}); an update may end it."
        f" Retry; or delete the head's pod, which ends whatever runs there:\n  {delete}"
    )


def others_between(api: Any, namespace: str, began: float, ended: float) -> list[str]:
    """Return the names of the jobs that belong to no measurement and ran between two times, which are Unix times in
    seconds.

    Empty if no head answers. A restarted head does not know earlier jobs.
    """
    try:
        jobs = ForwardedJobs(api, namespace).jobs()
    except OSError:
        return []
    others = [job for job in jobs if not is_of_measurement(job) and job.get("start_time")]
    return [
        job_name(job)
        for job in others
        if job["start_time"] / 1000 < ended and (is_unfinished(job) or (job.get("end_time") or 0) / 1000 > began)
    ]


def _token(api: Any, namespace: str) -> str:
    secret = kube.get(api, f"/api/v1/namespaces/{namespace}/secrets/{TOKEN_SECRET}")
    return base64.b64decode(secret["data"][TOKEN_KEY]).decode()
