"""A Job that checks something from inside the cluster and ends within seconds: created, awaited, read, deleted.

It is in no state, and nothing of it stays. If its pod cannot start, the kubelet's own message is reported as soon as it
is known, and not only at the deadline.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from infra.places.cluster.api import kube, waits
from infra.places.cluster.api.waits import NOT_PULLED
from infra.programs import UserError
from training.machine import output

POLL_SECONDS = 1.0
PLACE_SECONDS = 60.0
"""The seconds after which a pod without a node is refused. An earlier pod's resources are free again sooner."""
NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
BACKED_OFF = "ImagePullBackOff"
"""The state between two attempts to pull an image. Its message does not say why the first attempt failed."""
LAST_LINES = 20


class ShortJobError(UserError):
    """Raised if the Job did not succeed; the message says in one sentence why."""

    def __init__(self, message: str, log: str = "", *, pulled: bool = True) -> None:
        super().__init__(message)
        self.log = log
        """The last lines of the log of the Job's pod."""
        self.pulled = pulled
        """Whether the image was pulled."""


def run(api: Any, namespace: str, name: str, pod: Mapping[str, Any], seconds: float) -> str:
    """Run a pod to its end and return its log. Raise ShortJobError if the pod fails or does not end in time, and
    KubeError if the cluster does not answer."""
    job = f"{name}-{uuid.uuid4().hex[:8]}"
    kube.create(api, _jobs(namespace), _manifest(job, pod, seconds))
    try:
        return _followed(api, namespace, job, time.monotonic() + seconds)
    finally:
        kube.delete(api, f"{_jobs(namespace)}/{job}")


def _jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def _manifest(name: str, pod: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the Job's manifest. A deadline and a time to live remove the Job even if this program is killed."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": metadata["labels"]},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(seconds),
            "ttlSecondsAfterFinished": int(seconds),
            "template": {"metadata": metadata, "spec": {"restartPolicy": "Never", **pod["spec"]}},
        },
    }


def _followed(api: Any, namespace: str, job: str, deadline: float) -> str:
    began, why_no_image = time.monotonic(), ""
    while time.monotonic() < deadline:
        pods = kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"job-name={job}")
        if not pods:
            _refuse_refusal(api, namespace, job)
        for pod in pods:
            ended = _ended(pod)
            if ended is not None:
                return _log_of(api, namespace, pod, ended)
            why_no_image = _refuse_waiting(pod, why_no_image)
            if time.monotonic() - began > PLACE_SECONDS:
                _refuse_without_place(pod)
        time.sleep(POLL_SECONDS)
    raise ShortJobError("it did not end in time")


def _ended(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state in which the pod's container ended; None if the container has not ended."""
    for status in pod["status"].get("containerStatuses") or []:
        if "terminated" in status["state"]:
            return dict(status["state"]["terminated"])
    return None


def _log_of(api: Any, namespace: str, pod: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    """Return the log of a container that succeeded. Raise ShortJobError if the container failed."""
    if ended.get("reason") in ("StartError", "ContainerCannotRun"):
        raise ShortJobError(f"its container can't be started: {ended.get('message', '').strip()}")
    log = kube.log(api, namespace, pod["metadata"]["name"])
    if ended["exitCode"] == 0:
        return log
    last = "\n".join(output.last_lines(log.strip(), LAST_LINES))
    if ended.get("reason") == "OOMKilled":
        raise ShortJobError("it needs more memory than its pod has (OOMKilled)", last)
    raise ShortJobError(f"it ended with exit code {ended['exitCode']}", last)


def _refuse_waiting(pod: Mapping[str, Any], why_no_image: str) -> str:
    """Raise ShortJobError if the pod's container can never start; else return why no image could be pulled so far."""
    for waiting in _waiting(pod):
        reason, message = waiting.get("reason", ""), str(waiting.get("message", "")).strip()
        if reason in NOT_STARTED:
            raise ShortJobError(f"its container can't be started: {message}")
        if reason == BACKED_OFF or (reason in NOT_PULLED and reason != "ErrImagePull"):
            raise ShortJobError(f"its image can't be pulled: {why_no_image or message}", pulled=False)
        if reason == "ErrImagePull":
            return message
    return why_no_image


def _waiting(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for status in kube.statuses(pod):
        if "waiting" in status["state"]:
            yield status["state"]["waiting"]


def _refuse_without_place(pod: Mapping[str, Any]) -> None:
    for message in waits.unplaced(pod):
        raise ShortJobError(f"no node takes its pod: {message}")


def _refuse_refusal(api: Any, namespace: str, job: str) -> None:
    """Raise ShortJobError if the API server refuses the pod. A user who may not list events does not learn that; then
    the Job's deadline ends the wait."""
    for event in waits.refusals(api, namespace, kind="Job", name=job):
        raise ShortJobError(f"its pod is refused: {event['message'].strip()}")
