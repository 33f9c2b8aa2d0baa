"""The result of a finished Job as a Pulumi dynamic resource: reads its pod's log once, and writes the run's folder.

From then on outputs and previews need no cluster. Keyed by the Job's uid: another Job is another result.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource
from pulumi.output import Unknown

from infra.places.cluster.api import kube, kueue, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by
from training.contract import result
from training.contract.codec import ResultError
from training.contract.provenance import PROJECT
from training.contract.recipe import from_texts
from training.launch.pod import log_result
from training.machine import output
from training.machine.command_line import rwi

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
UID_LABEL = "batch.kubernetes.io/controller-uid"
LOG_SECONDS = 60.0
"""The most seconds to wait for the next byte of a log: a long time, because the kubelet of a busy node is slow."""
PROVISIONED = "RayClusterProvisioned"
"""KubeRay's condition that all pods were ready for the first time. A later suspension changes it again."""
SUSPENDED = "RayClusterSuspended"
"""KubeRay's condition that a RayCluster is suspended; the condition changes when the suspension ends. A RayCluster in
no queue has the condition, too, since the operator first saw the RayCluster."""
REASON = "rayClusterStartSeconds"
_LATER = "The next `up` reads it, and does not repeat the run."


class NoResultError(UserError):
    """Raised if the result of a Job cannot be read."""


class JobResult(Resource, module="cluster", name="JobResult"):
    """A finished Job's result as a Pulumi resource. `result` is the summary of it, as canonical JSON."""

    result: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(JobResultProvider(), name, properties | {"result": None}, opts)


class JobResultProvider(Provider):
    """Reads a Job's log when the resource is created. Deleting the resource leaves the run's files where they are."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the result is replaced if the Job's uid changed.

        While the new uid is unknown, return neither a change nor a replacement, and leave the decision to the update.
        The engine asks with an unknown uid before it deletes a Job that it replaces: if this method called that a
        replacement, the engine would not compare the inputs, and a preview would show all of them as changed.
        """
        if isinstance(news.get("uid"), Unknown):
            return DiffResult(changes=None, replaces=[])
        return replaced_by(changed(olds, news, "uid"))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Read the Job's log, write the run's folder, and return its path with the result's summary. Raise
        NoResultError if the log holds no valid result."""
        log = _read_log(props)
        folder = _new_folder(props["stack"], props["name"])
        (folder / "log.txt").write_text(log_result.without_result(log), encoding="utf-8")
        try:
            run_result = log_result.find_result(log)
            _refuse_other_recipe(run_result, props)
            job = _job(props)
            _refuse_company(props, job)
            _refuse_no_queue(props, job)
            _refuse_eviction(props, job)
            run_result = with_cluster_start(run_result, props["kubeconfig"], props["namespace"])
            run_result = with_scale_up(run_result, json.loads(props.get("scaleUp") or "{}"))
            run_result = with_queue(run_result, job if "queue" in props else {})
            run_result.write(folder / result.NAME)
            summary = result.summarise(folder / result.NAME, PROJECT)
        except ResultError as error:
            raise NoResultError(
                f"{error}\nIts log is kept: {(folder / 'log.txt').relative_to(PROJECT)}\n{_again(props)}"
            ) from None
        return CreateResult(str(folder.relative_to(PROJECT)), props | {"result": summary})


def _refuse_other_recipe(run_result: result.TrainingResult, props: dict[str, Any]) -> None:
    """Raise ResultError if the log holds the result of another recipe or arm. A prebuilt image may hold other code,
    which reads the flags differently."""
    recipe = from_texts(props["recipe"])
    wrong = [key for key, value in recipe.items() if run_result.recipe.get(key) != value]
    if run_result.arm != props["arm"] or wrong:
        raise ResultError(
            f"the log holds the result of another run: {run_result.arm}, different in {', '.join(wrong) or 'nothing'};"
            " the image was not made from this project as it is"
        )


def _job(props: dict[str, Any]) -> Mapping[str, Any]:
    """Return the run's Job; empty if the Job is gone. If the cluster does not answer, return empty without a queue, and
    raise NoResultError with a queue."""
    with _asking_kueue(props) if "queue" in props else suppress(KubeError):
        jobs = kube.items(kube.connect(props["kubeconfig"]), f"/apis/batch/v1/namespaces/{props['namespace']}/jobs")
        return next((job for job in jobs if job["metadata"].get("uid") == props["uid"]), {})
    return {}


def _refuse_company(props: dict[str, Any], job: Mapping[str, Any]) -> None:
    """Raise ResultError if foreign jobs ran on the RayCluster during the run, because they shared its CPUs. This
    applies to each arm.

    The arm `ray` detects foreign jobs by itself, too. If the cluster or Ray does not answer, nothing is known, and the
    run counts.
    """
    with suppress(KubeError):
        times = job.get("status", {})
        if not {"startTime", "completionTime"} <= times.keys():
            return
        began, ended = (_time(times[name]).timestamp() for name in ("startTime", "completionTime"))
        api = kube.connect(props["kubeconfig"])
        if names := ray_api.others_between(api, props["namespace"], began, ended):
            raise ResultError(
                f"this run does not count: jobs that no measurement submitted ran on the Ray cluster at the same time:"
                f" {', '.join(names)}. They shared the measured CPUs"
            )


def _refuse_no_queue(props: dict[str, Any], job: Mapping[str, Any]) -> None:
    """Raise ResultError if a queue was set for the run, but Kueue never suspended the run's Job or the RayCluster."""
    if "queue" not in props or not job:
        return
    with _asking_kueue(props):
        names = kueue.left_alone(kube.connect(props["kubeconfig"]), props["namespace"], job)
        if names:
            raise ResultError(
                f"this run does not count: Kueue never suspended what is in queue {props['queue']}"
                f" ({', '.join(names)}), and it ran without quota. {kueue.TO_TAKE_KINDS}. Without the queue: "
                " pulumi config rm queue"
            )


def _refuse_eviction(props: dict[str, Any], job: Mapping[str, Any]) -> None:
    """Raise ResultError if Kueue evicted pods of the run, or of the RayCluster meanwhile: it is not one whole run."""
    if "queue" not in props or not job:
        return
    with _asking_kueue(props):
        reason = kueue.eviction(kube.connect(props["kubeconfig"]), props["namespace"], job)
        if reason:
            raise ResultError(f"this run does not count: evicted by Kueue ({reason})")


@contextmanager
def _asking_kueue(props: dict[str, Any]) -> Iterator[None]:
    """Ignore an error that says that this user may not ask the cluster (403). For any other error of the cluster, raise
    NoResultError, as for an unreadable log."""
    try:
        yield
    except KubeError as error:
        if error.status != 403:
            raise NoResultError(
                f"{props['name']} has ended, and whether Kueue evicted it is not known: {error}\n{_LATER}"
            ) from None


def _read_log(props: dict[str, Any]) -> str:
    """Return the log of the Job's pod, or of its pod 0 if Indexed. Raise NoResultError if it cannot be read."""
    from kubernetes.client import CoreV1Api
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    api = kube.client(props["kubeconfig"])
    core, limits = CoreV1Api(api), {"_request_timeout": (kube.CONNECT_SECONDS, LOG_SECONDS)}
    selector = f"{UID_LABEL}={props['uid']}" + (f",{INDEX_LABEL}=0" if props["indexed"] else "")
    try:
        pods = core.list_namespaced_pod(props["namespace"], label_selector=selector, **limits).items
        if not pods:
            raise NoResultError(f"{props['name']} has ended, but its pod and its log are gone.\n{_again(props)}")
        name = pods[0].metadata.name
        answer = core.read_namespaced_pod_log(name, props["namespace"], _preload_content=False, **limits)
        log = output.end(answer.stream(output.CHUNK_BYTES), kube.MOST_LOG).decode(errors="replace")
    except ApiException as error:
        raise NoResultError(
            f"the log of {props['name']} can't be read: {error.reason} ({error.status}).\n{_again(props)}"
        ) from None
    except HTTPError as error:
        raise NoResultError(
            f"{props['name']} has ended, and its log can't be read: {kube.no_answer(api, error)}\n{_LATER}"
        ) from None
    return log


def _new_folder(stack: str, name: str) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    folder = PROJECT / "runs" / stack / f"{name}-{stamp}-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    return folder


def _again(props: dict[str, Any]) -> str:
    return (
        f"To repeat this run:  pulumi up --target-replace '{props['jobUrn']}' --target-dependents\n"
        f"To collect the cluster's state in one archive:  {rwi('doctor --archive', props['stack'])}"
    )


def with_cluster_start(run_result: result.TrainingResult, kubeconfig: str, namespace: str) -> result.TrainingResult:
    """Return the result of a Ray run with the RayCluster's start-up time, or with the reason why that time is unknown.
    Other results are returned unchanged. An error here does not make the run fail."""
    if run_result.ray_head is None:
        return run_result
    try:
        path = f"/apis/{ray_cluster.API_VERSION}/namespaces/{namespace}/rayclusters/{ray_cluster.NAME}"
        seconds = start_seconds(kube.get(kube.connect(kubeconfig), path))
    except (KubeError, ValueError) as error:
        return replace(run_result, reasons=run_result.reasons | {REASON: f"the RayCluster could not be read: {error}"})
    return replace(run_result, ray_head=replace(run_result.ray_head, cluster_start_seconds=seconds))


def with_scale_up(run_result: result.TrainingResult, phases: Mapping[str, float]) -> result.TrainingResult:
    """Return the result with the start of Ray's workers counted as part of the run: the run then begins when its
    workers were asked for. `phases` are the seconds of that start, by phase."""
    if not phases:
        return run_result
    seconds, total = run_result.seconds, sum(phases.values())
    began = datetime.fromisoformat(run_result.started_at) - timedelta(seconds=total)
    named = {f"workers{phase.capitalize()}": value for phase, value in phases.items()}
    seconds = replace(
        seconds,
        scale_up=total,
        startup=None if seconds.startup is None else seconds.startup + total,
        phases={**named, **seconds.phases},
        wall=seconds.wall + total,
    )
    return replace(run_result, started_at=began.isoformat(), seconds=seconds)


def with_queue(run_result: result.TrainingResult, job: Mapping[str, Any]) -> result.TrainingResult:
    """Return the result with the seconds that the run waited in its queue, from the creation of its Job until Kueue let
    the Job start. No other number contains this time. The result is unchanged without a queue, or if the Job did not
    start."""
    started = job.get("status", {}).get("startTime")
    if not started:
        return run_result
    queued = (_time(started) - _time(job["metadata"]["creationTimestamp"])).total_seconds()
    return replace(run_result, seconds=replace(run_result.seconds, queued=queued))


def start_seconds(cluster: Mapping[str, Any]) -> float:
    """Return the seconds from a RayCluster's creation, or from its admission by a queue, until all its pods were ready
    for the first time. They are whole seconds, as Kubernetes keeps them.

    Raise ValueError if the RayCluster's status does not say when it was ready.
    """
    conditions = cluster.get("status", {}).get("conditions", [])
    ready = [each for each in conditions if each.get("type") == PROVISIONED and each.get("status") == "True"]
    metadata = cluster.get("metadata", {})
    created, in_queue = metadata.get("creationTimestamp"), QUEUE_LABEL in metadata.get("labels", {})
    if not ready or not created:
        raise ValueError(f"it has no condition {PROVISIONED}")
    admitted = [each["lastTransitionTime"] for each in conditions if in_queue and each.get("type") == SUSPENDED]
    return (_time(ready[0]["lastTransitionTime"]) - max(map(_time, [created, *admitted]))).total_seconds()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
