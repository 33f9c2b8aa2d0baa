"""Jobs that an interrupted update left running: Pulumi does not know one if it was killed during its creation.

The next update would create another one, and both would share the cores to be measured. While no update runs, no Job of
a run is needed.
"""

import time
from collections.abc import Mapping
from typing import Any

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.pod_parts import RUN_LABEL, STACK_ANNOTATION
from infra.places.cluster.manifests.queue import QUEUE_LABEL

GONE_SECONDS = 60.0
POLL_SECONDS = 0.5


def unfinished(api: Any, namespace: str) -> dict[str, str]:
    """Return the runs' unfinished Jobs by name, each with its stack's name. Raise KubeError if that fails."""
    return {str(job["metadata"]["name"]): stack_of(job) for job in unfinished_jobs(api, namespace)}


def unfinished_jobs(api: Any, namespace: str) -> list[Mapping[str, Any]]:
    """Return the runs' unfinished Jobs as objects. Raise KubeError if the cluster does not answer or refuses."""
    return [job for job in kube.items(api, _path(namespace)) if _is_run(job) and not _has_ended(job)]


def stack_of(job: Mapping[str, Any]) -> str:
    """Return the name of the stack to which a run's Job belongs; empty if the Job does not say."""
    return str((job["metadata"].get("annotations") or {}).get(STACK_ANNOTATION, ""))


def end_line(job: Mapping[str, Any], namespace: str) -> str:
    """Return the command line that ends a run's Job.

    The deadline of a Job that waits in a queue does not count: the Job has to leave the queue first, and then to start.
    Kueue refuses both changes in one request.
    """
    of_job = f"{job['metadata']['name']} --namespace {namespace}"
    end = f"""kubectl patch job {of_job} --type=merge --patch='{{"spec": {{"activeDeadlineSeconds": 1}}}}'"""
    if not (job["spec"].get("suspend") and QUEUE_LABEL in job["metadata"].get("labels", {})):
        return end
    started = end.replace('{"spec": {', '{"spec": {"suspend": false, ')
    return f"kubectl label job {of_job} {QUEUE_LABEL}- && {started}"


def end_unfinished(api: Any, namespace: str) -> list[str]:
    """End all unfinished Jobs of runs, wait until they have ended and their pods are gone, and return their names.
    Raise KubeError if a Job does not end.

    A deadline in the past ends the Jobs. They are not deleted, because Pulumi's next update would fail with `not found`
    for a Job that it knows; Pulumi replaces a failed Job.
    """
    names = list(unfinished(api, namespace))
    for name in names:
        end(api, namespace, name)
    deadline = time.monotonic() + GONE_SECONDS
    while names and set(names) & set(unfinished(api, namespace)):
        if time.monotonic() > deadline:
            raise KubeError(f"these Jobs of an interrupted update do not end: {', '.join(names)}")
        time.sleep(POLL_SECONDS)
    return names


def end(api: Any, namespace: str, name: str) -> None:
    """End a Job by setting a deadline in the past. Raise KubeError if the cluster does not answer or refuses."""
    kube.patch(api, f"{_path(namespace)}/{name}", {"spec": {"activeDeadlineSeconds": 1}})


def _path(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def _is_run(job: Mapping[str, Any]) -> bool:
    return RUN_LABEL in (job["spec"]["template"]["metadata"].get("labels") or {})


def _has_ended(job: Mapping[str, Any]) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True" for condition in conditions
    )
