"""Watches the Jobs of a stack's runs while an update waits for them: says what their pods wait for, and ends a Job
whose pods never start. In a queue it says what Kueue says.

Pulumi waits for a Job until its deadline, whatever happens to its pods: only a Job that has ended ends the wait.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from infra.places.cluster.api import kube, kueue, leftover_jobs
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.waits import Patience, Reasons
from infra.places.cluster.job_result import UID_LABEL
from infra.places.cluster.manifests.pod_parts import RUN_LABEL
from infra.settings.settings import Settings

POLL_SECONDS = 2.0


class RunWatch:
    """Watches the unfinished Jobs of a stack in its namespace and, with a queue, what waits in the queue."""

    def __init__(self, settings: Settings, say: Callable[[str], object], fail: Callable[[str], object]) -> None:
        self._stack, self._namespace = settings.stack, settings.of_cluster.namespace
        self._queue, self._minutes = settings.of_cluster.queue, settings.run.run_timeout_minutes
        self._say, self._fail = say, fail
        self._patience: dict[str, Patience] = {}
        self._queued_since: dict[str, float] = {}
        self._queue_reasons = Reasons(say)
        self._connection: tuple[str, Any] = ("", None)
        self._kueue_version, self._is_queue_readable = "", True

    def look_if_known(self) -> None:
        """Look once, if the kubeconfig of the stack's cluster exists by now. The last connection is used as long as it
        works and the kubeconfig is the same, because a new connection may run a program for credentials."""
        own = kube.own_text(self._stack)
        if own is None:
            return
        try:
            if self._connection[0] != own:
                self._connection = own, kube.connect(kube.own_path(self._stack))
            self.look(self._connection[1])
        except KubeError:
            self._connection = "", None

    def look(self, api: Any) -> None:
        """Look once at every Job and at the queue. Raise KubeError if the cluster does not answer."""
        for job in leftover_jobs.unfinished_jobs(api, self._namespace):
            if leftover_jobs.stack_of(job) == self._stack and not job["spec"].get("suspend"):
                self._look_at(api, job)
        if self._queue and self._is_queue_readable:
            self._say_what_waits(self._waiting(api))

    def _waiting(self, api: Any) -> Mapping[str, str]:
        """Return why objects wait in the queue, as Kueue says; empty if the user may not read that, which is reported
        once. Raise KubeError for any other failure."""
        try:
            self._kueue_version = self._kueue_version or kueue.version(api)
            return kueue.waiting(api, self._kueue_version, self._namespace)
        except KubeError as error:
            self._kueue_version = ""  # it may be another one by now
            if error.status != 403:
                raise
            self._is_queue_readable = False
            self._say(f"what waits in queue {self._queue} is not shown: {error}")
            return {}

    def _say_what_waits(self, waiting: Mapping[str, str]) -> None:
        """Report why each object waits. If an object has waited for as long as a run may take, report that, too."""
        now = time.monotonic()
        self._queued_since = {name: self._queued_since.get(name, now) for name in waiting}
        overdue = [name for name, since in self._queued_since.items() if now - since >= 60 * self._minutes]
        still = f"after {self._minutes} minutes (runTimeoutMinutes) it still "
        self._queue_reasons.hear(f"{name}: {still if name in overdue else ''}{why}" for name, why in waiting.items())

    def _look_at(self, api: Any, job: Mapping[str, Any]) -> None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        run = job["spec"]["template"]["metadata"]["labels"][RUN_LABEL]
        pods = kube.items(api, f"/api/v1/namespaces/{self._namespace}/pods", labelSelector=f"{UID_LABEL}={uid}")
        patience = self._patience.setdefault(uid, Patience(lambda reason: self._say(f"{run}: {reason}")))
        in_vain = patience.look(api, self._namespace, job, pods, job["spec"].get("parallelism", 1))
        if in_vain:
            self._fail(f"{run} failed: {in_vain}")
            leftover_jobs.end(api, self._namespace, name)


def start(settings: Settings) -> None:
    """Start a thread that watches the runs, once the cluster can be reached, until the program ends."""
    watch = RunWatch(settings, pulumi.log.warn, pulumi.log.error)

    def follow() -> None:
        while True:
            time.sleep(POLL_SECONDS)
            watch.look_if_known()

    # The program's context: by it messages find the engine.
    threading.Thread(target=contextvars.copy_context().run, args=(follow,), name="run-watch", daemon=True).start()
