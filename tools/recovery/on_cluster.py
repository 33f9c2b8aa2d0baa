"""The same of a stack on a cluster: a run as a job of its Ray cluster, in which the pod of a worker is deleted.

As a node takes it along: without a moment to end well; KubeRay makes another. What the run does is read from its log,
so times are those at which it was seen, to a second or two. Judges nothing.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from infra.places.cluster import kube
from infra.places.cluster.pods import pods_of
from infra.places.cluster.ray_cluster_spec import WORKER_LABELS
from tools.jobs.__main__ import Ray, asking, reach, refuse_beside_measurement
from tools.look import cluster
from tools.recovery.run import Ended, Seen, Wanted, is_beyond_a_checkpoint
from tools.setup.project import ToolError, say
from training.contract import progress
from training.contract.result import ResultError
from training.launch import log_result
from training.launch.checkpoints import manifests
from training.launch.other_jobs import is_unfinished
from training.launch.storage import Storage
from training.launch.submit import JobsApi, SubmitError, patiently

POLL_SECONDS = 1.0
LOG_LINES = 15


@dataclass(frozen=True)
class OnCluster:
    """The Ray cluster of a stack, which nothing else uses."""

    ray: Ray
    dataset_flags: tuple[str, ...]

    @classmethod
    def of(cls, stack: str, overrides: dict[str, str]) -> "OnCluster":
        """That of a stack that is up. Raises ToolError."""
        found = cluster.find(stack, overrides)
        ray = reach(found)
        with asking(found):
            refuse_beside_measurement(ray, "no worker was killed")
        return cls(ray, pods_of(found.settings).jobs.dataset_flags)

    def run(self, wanted: Wanted, *, kill: bool) -> Ended:
        """Run it; its data is the image's. Raises ToolError with the end of its log."""
        jobs, name = self.ray.jobs, "-".join(wanted.storage.rsplit("/", 2)[1:]).lower()
        command = ["python", "-m", "training.launch.pod", "ray", "--address=auto", f"--storage={wanted.storage}"]
        variables = {progress.ECHO: progress.AS_JSON, progress.EACH_STEP: "1"}
        events, killed_at, shown = list[Seen](), None, 0
        with asking(self.ray.found):
            jobs.submit(name, [*command, *wanted.recipe.flags(), *self.dataset_flags], variables)
            try:
                for log in _as_it_grows(jobs, name, wanted.minutes):
                    events += [Seen(time.monotonic(), event) for event in progress.in_log(log[shown:])]
                    shown = log.rfind("\n") + 1
                    if kill and killed_at is None and is_beyond_a_checkpoint(events):
                        killed_at = self._delete_a_worker()
            except SubmitError as error:
                raise ToolError(str(error)) from None
            finally:
                if is_unfinished(jobs.job(name)):
                    jobs.stop(name)
            return _ended(jobs, name, wanted.storage, events, killed_at)

    def _delete_a_worker(self) -> float:
        """When it was. Raises ToolError where there is none, and KubeError."""
        found = self.ray.found
        selector = ",".join(f"{key}={value}" for key, value in WORKER_LABELS.items())
        folder = f"/api/v1/namespaces/{found.settings.of_cluster.namespace}/pods"
        for pod in kube.items(self.ray.kube, folder, labelSelector=selector):
            if pod["status"].get("phase") == "Running":
                kube.delete(self.ray.kube, f"{folder}/{pod['metadata']['name']}", at_once=True)
                say(f"deleted the pod {pod['metadata']['name']}")
                return time.monotonic()
        raise ToolError("no worker of Ray runs in a pod")


def _as_it_grows(jobs: JobsApi, name: str, minutes: float) -> Iterator[str]:
    """A job's whole log, again and again until it has ended. Raises SubmitError, and ToolError at its deadline."""
    deadline = time.monotonic() + 60 * minutes
    while True:
        ends = not is_unfinished(patiently(lambda: jobs.job(name), "ask for the run's status"))
        yield patiently(lambda: jobs.log(name), "read the run's log")
        if ends:
            return
        if time.monotonic() > deadline:
            raise ToolError(f"the run did not end in runTimeoutMinutes {minutes:g}, and was ended")
        time.sleep(POLL_SECONDS)


def _ended(jobs: JobsApi, name: str, storage: str, events: list[Seen], killed_at: float | None) -> Ended:
    log = jobs.log(name)
    try:
        result = log_result.find_result(log)
    except ResultError as error:
        last = "\n".join(f"  | {line}" for line in log.splitlines()[-LOG_LINES:])
        raise ToolError(f"{error}; the end of its log:\n{last}") from None
    kept = manifests(Storage.at(storage)).values()
    return Ended(events=events, killed_at=killed_at, result=result, newest=max(kept, key=lambda one: one.epoch))
