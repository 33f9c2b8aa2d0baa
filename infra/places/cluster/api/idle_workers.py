"""Waits until Ray's autoscaler has removed all workers (`rayWorkers autoscaled`), and stops what would keep them.

The autoscaler removes only idle workers, which those of an interrupted run's job are not; and it may have ended:
KubeRay gives the head's pod the restart policy Never, so nobody starts its container again.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from infra.places.cluster.api import kube, ray_scale, waits
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.api.ray_scale import Pod, ScaleError
from infra.places.cluster.manifests import ray_autoscaler, ray_cluster
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS
from training.launch.ray.other_jobs import end_line, is_of, is_unfinished, job_name

POLL_SECONDS = 0.5
ASK_RAY_SECONDS = 5.0
SETTLED_SECONDS = 10.0
"""The seconds after a job was stopped in which the autoscaler may still ask for workers, because the autoscaler reads
only every five seconds which workers are needed."""
NO_ANSWER = (OSError, ValueError, KeyError, TypeError)
"""The errors that a request to Ray raises if its dashboard does not answer, or gives an invalid answer."""
Job = Mapping[str, Any]


def idle_seconds(api: Any, namespace: str) -> int | None:
    """Return the seconds without work after which the RayCluster's autoscaler removes a worker; None if the RayCluster
    has no autoscaler. Raise KubeError if the cluster does not answer."""
    spec = (ray_scale.read_cluster(api, namespace) or {}).get("spec", {})
    options = spec.get("autoscalerOptions") or {}
    return options.get("idleTimeoutSeconds") if spec.get("enableInTreeAutoscaling") else None


def wait_until_gone(api: Any, namespace: str, stack: str, idle_seconds: int) -> list[str]:
    """Stop the stack's own jobs that still run on the RayCluster, and return their names. Wait until no worker is asked
    for and no worker's pod is left in any state.

    Raise ScaleError, which says what is left and how to recreate the RayCluster, if that takes too long or the
    autoscaler has ended. Raise KubeError if the cluster does not answer.
    """
    jobs, began = _OwnJobs(api, namespace, stack), time.monotonic()
    most = idle_seconds + ray_scale.DOWN_SECONDS
    while True:
        jobs.stop()
        left = _Left.read(api, namespace)
        if left.autoscaler_ended:
            raise ScaleError(
                _what_is_left(left, jobs, namespace, f"{left.autoscaler_ended}, and nobody starts it again")
            )
        if left.is_nothing and jobs.are_settled:
            return jobs.stopped
        if time.monotonic() - began > most:
            late = f"has not removed all workers within {most:.0f} s; they hold what the next run needs"
            raise ScaleError(_what_is_left(left, jobs, namespace, late))
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True)
class _Left:
    """The workers that are asked for, the workers' pods that are left, and the pods of the head."""

    asked_for: int
    pods: Sequence[Pod]
    heads: Sequence[Pod]

    @classmethod
    def read(cls, api: Any, namespace: str) -> "_Left":
        """Return the current state. The number of workers that are asked for is read before the pods, because pods
        appear only after this number was raised."""
        cluster = ray_scale.read_cluster(api, namespace)
        heads = ",".join(f"{key}={value}" for key, value in HEAD_LABELS.items())
        return cls(
            asked_for=ray_scale.asked_for(cluster) if cluster else 0,
            pods=ray_scale.worker_pods(api, namespace),
            heads=kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=heads),
        )

    @property
    def is_nothing(self) -> bool:
        """Return whether there is no worker's pod, and no worker is asked for."""
        return not self.asked_for and not self.pods

    @property
    def autoscaler_ended(self) -> str:
        """Return how the autoscaler's container ended, if nobody starts it again; empty if it did not end."""
        heads = [head for head in self.heads if head["spec"].get("restartPolicy") == "Never"]
        states = [each["state"] for head in heads for each in kube.statuses(head)
                  if each["name"] == ray_autoscaler.CONTAINER]  # fmt: skip
        for ended in (state["terminated"] for state in states if "terminated" in state):
            return f"ended with exit code {ended.get('exitCode')} ({ended.get('reason', 'no reason')})"
        return ""


class _OwnJobs:
    """The stack's own jobs on the RayCluster, which an interrupted run left, because no run is in progress now."""

    def __init__(self, api: Any, namespace: str, stack: str) -> None:
        self.stack, self.stopped = stack, list[str]()
        self._ray = ForwardedJobs(api, namespace)
        self._asked_at, self._ran_at = -ASK_RAY_SECONDS, -SETTLED_SECONDS

    def stop(self) -> None:
        """Tell Ray to stop the stack's own jobs. If the head does not answer, the next call tries again."""
        if time.monotonic() - self._asked_at < ASK_RAY_SECONDS:
            return
        self._asked_at = time.monotonic()
        for job in self.unfinished():
            if is_of(self.stack, job):
                self._ran_at = time.monotonic()
                self.stopped += [name] if (name := job_name(job)) not in self.stopped else []
                with suppress(*NO_ANSWER):
                    self._ray.stop(name)

    def unfinished(self) -> list[Job]:
        """Return all jobs that have not ended, including the jobs of others; empty if Ray does not answer."""
        with suppress(*NO_ANSWER):
            return [job for job in self._ray.jobs() if is_unfinished(job)]
        return []

    @property
    def are_settled(self) -> bool:
        """Return whether the last of these jobs ran so long ago that no worker can still appear for them."""
        return time.monotonic() - self._ran_at >= SETTLED_SECONDS


def _what_is_left(left: _Left, jobs: _OwnJobs, namespace: str, what: str) -> str:
    """Return a text that says which pods and jobs are left, and what to type. Deleting the pods would not help, because
    KubeRay recreates them."""
    pods, running = ", ".join(map(_shown, left.pods)) or "none", jobs.unfinished()
    of_jobs = f"; unfinished Ray jobs: {', '.join(map(job_name, running))}" if running else ""
    kubectl = f"kubectl --kubeconfig={kube.own_path(jobs.stack)} --namespace={namespace}"
    says = [f"  {kubectl} logs {head['metadata']['name']} --container={ray_autoscaler.CONTAINER} --tail=20"
            for head in left.heads]  # fmt: skip
    others = [f"  {end_line(job, jobs.stack)}" for job in running if not is_of(jobs.stack, job)]
    return "\n".join(
        [
            f"Ray's autoscaler {what}. Pods of workers: {pods}; workers asked for: {left.asked_for}{of_jobs}.",
            *(["What the autoscaler says:", *says] if says else []),
            *(["To end others' jobs:", *others] if others else []),
            "To recreate the RayCluster, which ends whatever runs there:",
            f"  {kubectl} delete raycluster {ray_cluster.NAME}\n  pulumi refresh --yes\n  pulumi up",
        ]
    )


def _shown(pod: Pod) -> str:
    """Return a text with the name of a pod, its state and what the pod waits for."""
    metadata, reasons = pod["metadata"], "; ".join(waits.reasons(pod))
    state = "Terminating" if "deletionTimestamp" in metadata else str(pod["status"].get("phase", "Unknown"))
    return f"{metadata['name']} ({state}{': ' if reasons else ''}{reasons})"
