"""A recovery on a cluster: the run is a job of its Ray cluster, and the pod of a worker or of the head is deleted.

The pod is deleted as by the loss of a node, without a grace period; KubeRay creates another. The job and its log end
with the head, so the job is resubmitted under another name. Other jobs could end with a pod, so nothing is killed while
any runs. Progress is read from the run's log, so times are those of reading it, exact to a second or two.
Judges nothing.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cli.jobs.jobs import Ray, asking, reach, refuse_beside_measurement, refuse_without_workers
from cli.look import cluster
from cli.recovery.run import Ended, Seen, Victim, Wanted, is_beyond_a_checkpoint
from cli.setup.project import ToolError, say
from infra.places.cluster import run_credentials
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import is_ready
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.programs import ProgramError
from training.contract import progress
from training.contract.codec import ResultError
from training.launch.pod import log_result
from training.launch.ray.jobs_api import JobsApi, SubmitError, patiently
from training.launch.ray.other_jobs import is_unfinished, job_name, mark, refusal
from training.launch.storage.checkpoint_store import manifests
from training.launch.storage.run_storage import Storage
from training.machine import output
from training.machine.command_line import rwi

POLL_SECONDS = 1.0
LOG_LINES = 15
LABELS = {Victim.WORKER: WORKER_LABELS, Victim.HEAD: HEAD_LABELS}
KILLS = "A kill may end it, too: nothing was killed."


@dataclass(frozen=True)
class OnCluster:
    """The Ray cluster of a stack, on which pods are killed, but never while somebody else's job runs there."""

    ray: Ray
    dataset_flags: tuple[str, ...]

    @classmethod
    def of(cls, stack: str, overrides: dict[str, str]) -> "OnCluster":
        """Return the cluster of a stack that is up. Raise ToolError if it cannot be used."""
        stack_cluster = cluster.find(stack, overrides)
        refuse_without_workers(stack_cluster)
        ray = reach(stack_cluster)
        on_cluster = cls(ray, pods_of(stack_cluster.settings).jobs.dataset_flags)
        with asking(stack_cluster), _explained():
            on_cluster._refuse_beside_others()
        return on_cluster

    def run(self, wanted: Wanted, *, kill: Victim | None) -> Ended:
        """Run the training, on the data set in the image, and kill the wanted pod. Raise ToolError with the end of the
        log if the training fails."""
        name, events = "-".join(wanted.storage.rsplit("/", 2)[1:]).lower(), list[Seen]()
        with asking(self.ray.place), _explained():
            self._refuse_beside_others()
            heads, nodes = self._names(HEAD_LABELS), self._nodes()
            killed_at = self._follow(name, wanted, events, kill)
            if kill is Victim.HEAD and killed_at is not None:
                self._await_another(heads, nodes, wanted.minutes)
                name = f"{name}-again"
                self._follow(name, wanted, events, None)
            return _ended(self.ray.jobs, name, wanted.storage, events, killed_at)

    def _follow(self, name: str, wanted: Wanted, events: list[Seen], kill: Victim | None) -> float | None:
        """Submit the job and collect its events until it or the head ends; return the time of the kill, or None."""
        command = ["python", "-m", "training.launch.pod.run", "ray", "--address=auto", f"--storage={wanted.storage}"]
        variables = {progress.ECHO: progress.AS_JSON, progress.EACH_STEP: "1"}
        killed_at, shown = None, 0
        self._let_in(wanted.minutes)
        command += [*wanted.recipe.flags(), *self.dataset_flags]
        owner = mark(owner_of(self.ray.place.stack))
        patiently(lambda: self.ray.jobs.submit(name, command, variables, owner), "submit the run")
        with _stopped_at_an_error(self.ray.jobs, name):
            for log in _as_it_grows(self.ray.jobs, name, wanted.minutes):
                events += [Seen(time.monotonic(), event) for event in progress.in_log(log[shown:])]
                shown = log.rfind("\n") + 1
                if kill and killed_at is None and is_beyond_a_checkpoint(events):
                    self._refuse_beside_others(name)
                    killed_at = self._delete_one(kill)
                    if kill is Victim.HEAD:
                        break  # no head knows the job any more
        return killed_at

    def _refuse_beside_others(self, own: str = "") -> None:
        """Raise ToolError if another job runs, because a kill may end that job, whoever submitted it."""
        jobs = patiently(self.ray.jobs.jobs, "ask for running jobs")
        others = [job for job in jobs if is_unfinished(job) and job_name(job) != own]
        refuse_beside_measurement(self.ray, "nothing was killed", others)
        if others:
            raise ToolError(f"stack {self.ray.place.stack}: {refusal(others, self.ray.place.stack, KILLS)}")

    def _let_in(self, minutes: float) -> None:
        """Assume the role that lets pods into the storage, if one is set: earlier credentials may expire too soon."""
        settings = self.ray.place.settings
        if not (settings.storage and settings.storage.role):
            return
        namespace, role = settings.of_cluster.namespace, settings.storage.role
        credentials_properties = {
            "namespace": namespace,
            "stack": settings.stack,
            "role": role,
            "timeoutMinutes": minutes,
        }
        try:
            run_credentials.make_there(self.ray.kube, credentials_properties | {"name": "recovery"})
        except (ProgramError, run_credentials.ForeignSecretError) as error:
            raise ToolError(str(error)) from None

    def _delete_one(self, kind: Victim) -> float:
        """Delete one pod of this kind, and return the time. Raise ToolError if no such pod runs, and KubeError."""
        for name in self._names(LABELS[kind]).values():
            kube.delete(self.ray.kube, f"{self._folder}/{name}", at_once=True)
            say(f"deleted the pod {name}")
            return time.monotonic()
        raise ToolError(f"no {kind} of Ray runs in a pod")

    def _await_another(self, heads: Mapping[str, str], nodes: int, minutes: float) -> None:
        """Wait for a ready head but these, and for as many nodes as before. Raise ToolError at the deadline."""
        say(f"waiting for another head with {nodes} nodes")
        deadline = time.monotonic() + 60 * minutes
        while not self._is_another_up(heads, nodes):
            if time.monotonic() > deadline:
                raise ToolError(
                    f"there was no other head of Ray with {nodes} nodes in runTimeoutMinutes {minutes:g}:"
                    f"  {rwi('status', self.ray.place.stack)}"
                )
            time.sleep(POLL_SECONDS)

    def _is_another_up(self, heads: Mapping[str, str], nodes: int) -> bool:
        """Return whether Ray has a new head and all nodes; False while Ray does not answer."""
        try:
            now = self._pods(HEAD_LABELS)
            is_new = bool(now) and all(is_ready(pod) and pod["metadata"]["uid"] not in heads for pod in now)
            return is_new and self._nodes() >= nodes
        except (KubeError, OSError):
            return False

    def _nodes(self) -> int:
        """Return the number of nodes that Ray's head reports as alive."""
        return sum(1 for node in self.ray.jobs.nodes() if node["state"] == "ALIVE")

    def _names(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the names of the running pods with these labels, by uid."""
        return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in self._pods(labels)}

    def _pods(self, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the running pods with these labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = kube.items(self.ray.kube, self._folder, labelSelector=selector)
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    @property
    def _folder(self) -> str:
        return f"/api/v1/namespaces/{self.ray.place.settings.of_cluster.namespace}/pods"


def owner_of(stack: str) -> str:
    """Return the mark that names the owner of a recovery's job. It differs from a measurement's mark, because a
    measurement ends leftover jobs with its own mark."""
    return f"recovery of {stack}"


@contextmanager
def _explained() -> Iterator[None]:
    """Raise a SubmitError of the `with` block as ToolError."""
    try:
        yield
    except SubmitError as error:
        raise ToolError(str(error)) from None


@contextmanager
def _stopped_at_an_error(jobs: JobsApi, name: str) -> Iterator[None]:
    """Stop the job if an error or Ctrl-C interrupts."""
    try:
        yield
    except BaseException:
        if is_unfinished(jobs.job(name)):
            jobs.stop(name)
        raise


def _as_it_grows(jobs: JobsApi, name: str, minutes: float) -> Iterator[str]:
    """Yield a job's whole log repeatedly until the job has ended. Raise SubmitError, and ToolError at the deadline."""
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
        last = "\n".join(f"  | {line}" for line in output.last_lines(log, LOG_LINES))
        raise ToolError(f"{error}; the end of its log:\n{last}") from None
    kept = manifests(Storage.at(storage)).values()
    return Ended(
        events=events, killed_at=killed_at, result=result, newest=max(kept, key=lambda manifest: manifest.epoch)
    )
