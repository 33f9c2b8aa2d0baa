"""What pods wait for: who says it, and who ends what waits in vain."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import ray_ready, run_watch
from infra.places.cluster.api import kube, ray_scale, waits
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.job_result import UID_LABEL
from infra.places.cluster.manifests import pod_parts, ray_cluster
from infra.places.cluster.manifests.pod_parts import RUN_LABEL, STACK_ANNOTATION
from infra.places.cluster.ray_ready import NotReadyError, RayReadyProvider
from infra.places.cluster.run_watch import RunWatch
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, serving
from tests.unit.settings_machine import machine, settings

QUOTA = 'Error creating: pods "ray-1-{}" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1'
NO_NODE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: none."
OF_STACK = {"target": "kubernetes", "image": "registry.example.com/a:1", "kubeContext": "test"}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nowhere/none:1"'}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Api, Any, str]]:
    """An API server, a client, and the kubeconfig's path."""
    with serving(tmp_path) as (api, path):
        yield api, kube.connect(str(path)), str(path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes with each sleep and by nothing else."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(ray_ready, "POLL_SECONDS", 3.0)  # of the quarter of an hour that one waits
    return now


def refuse(api: Api, uid: str, count: int = 1, reason: str = "FailedCreate") -> None:
    """Let a pod of an object be refused, and nobody see its name again."""
    event = {"metadata": {"name": "refused", "uid": "e"}, "count": count, "reason": reason,
             "message": QUOTA.format(count), "involvedObject": {"uid": uid}}  # fmt: skip
    api.put("/api/v1", "events", event, NAMESPACE)


def pod(name: str, labels: dict[str, str], status: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod with this status."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status or {"phase": "Running"}}


def unplaced() -> dict[str, Any]:
    """The status of a pod without a node."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": NO_NODE}]}


def put_job(api: Api) -> None:
    """The Job of a run that goes on."""
    job = {
        "metadata": {"name": "ray-1-x", "uid": "u", "annotations": {STACK_ANNOTATION: "s"}},
        "status": {},
        "spec": {"template": {"metadata": {"labels": {RUN_LABEL: "ray-1"}}}},
    }
    api.put("/apis/batch/v1", "jobs", job, NAMESPACE)


def put_ray_cluster(api: Api, ready: int) -> None:
    """A RayCluster with so many workers that are ready."""
    status = {"conditions": [{"type": "HeadPodReady", "status": "True"}], "readyWorkerReplicas": ready}
    item = {"metadata": {"name": ray_cluster.NAME, "uid": "r"}, "spec": {}, "status": status}
    api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", item, NAMESPACE)


def watched(
    api: Api, client: Any, clock: list[float], seconds: float, **values: str
) -> tuple[list[str], list[str], Any]:
    """What is said of a Job in that time, and of its failure; its deadline in the end."""
    said: list[str] = []
    failed: list[str] = []
    watch = RunWatch(settings(machine(stack="s"), **{**OF_STACK, **values}), said.append, failed.append)
    while clock[0] <= seconds:
        watch.look(client)
        clock[0] += run_watch.POLL_SECONDS
    return said, failed, api.objects[f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/ray-1-x"]["spec"]


def test_a_run_whose_pod_is_refused_ends_after_two_minutes(
    cluster: tuple[Api, Any, str], clock: list[float], wording: Wording
) -> None:
    """With the reason, once: a quota, a limit range, Pod Security, a webhook."""
    api, client, _ = cluster
    put_job(api)
    refuse(api, "u")

    said, failed, spec = watched(api, client, clock, waits.GIVE_UP_SECONDS - 2)
    assert (1, 0) == (len(said), len(failed))
    assert "activeDeadlineSeconds" not in spec
    clock[0] = 0.0
    said, failed, spec = watched(api, client, clock, waits.GIVE_UP_SECONDS)

    assert 1 == spec["activeDeadlineSeconds"]
    assert 1 == len(failed)
    wording("cluster", *said, *failed)


@pytest.mark.parametrize(
    ("status", "ends"),
    [(unplaced(), False), ({"containerStatuses": [{"state": NO_IMAGE}]}, True), (None, False)],
    ids=["no node", "no image", "runs"],
)
def test_a_run_waits_for_a_node_and_not_for_an_image(
    status: dict[str, Any] | None, ends: bool, cluster: tuple[Api, Any, str], clock: list[float]
) -> None:
    """Nodes come and go; an image that is not pulled for two minutes does not come. Both are said within 15 s."""
    api, client, _ = cluster
    put_job(api)
    api.put("/api/v1", "pods", pod("ray-1-x-a", {UID_LABEL: "u"}, status), NAMESPACE)

    said, _, _ = watched(api, client, clock, 15)
    assert bool(status) == bool(said)
    clock[0] = 0.0
    _, failed, spec = watched(api, client, clock, 10 * waits.GIVE_UP_SECONDS)
    assert ends == bool(failed) == ("activeDeadlineSeconds" in spec)


def test_a_pod_that_was_refused_once_is_not_waited_for_in_vain(
    cluster: tuple[Api, Any, str], clock: list[float]
) -> None:
    """The event stays for an hour after the pod was let in."""
    api, client, _ = cluster
    put_job(api)
    refuse(api, "u")
    api.put("/api/v1", "pods", pod("ray-1-x-a", {UID_LABEL: "u"}), NAMESPACE)

    assert ([], []) == watched(api, client, clock, 2 * waits.GIVE_UP_SECONDS)[:2]


def test_jobs_of_others_and_in_a_queue_are_left_alone(cluster: tuple[Api, Any, str], clock: list[float]) -> None:
    """Another stack's update looks after its own; a Job that is held back has no pods."""
    api, client, _ = cluster
    refuse(api, "u")
    for change in ({"metadata": {"annotations": {STACK_ANNOTATION: "t"}}}, {"spec": {"suspend": True}}):
        put_job(api)
        job = api.objects[f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/ray-1-x"]
        for part, fields in change.items():
            job[part] |= fields
        clock[0] = 0.0
        assert ([], []) == watched(api, client, clock, 2 * waits.GIVE_UP_SECONDS)[:2]


def hold_back(api: Api, name: str, labels: dict[str, str], message: str) -> None:
    """A Workload of ours that Kueue does not admit."""
    group = "kueue.x-k8s.io"
    api.objects[f"/apis/{group}"] = {"preferredVersion": {"groupVersion": f"{group}/v1beta2"}, "metadata": {}}
    waits_for = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    item = {
        "metadata": {"name": name, "ownerReferences": [{"name": name}]},
        "spec": {"queueName": "training", "podSets": [{"template": {"metadata": {"labels": labels}}}]},
        "status": {"conditions": [waits_for]},
    }
    api.put(f"/apis/{group}/v1beta2", "workloads", item, NAMESPACE)


def test_what_waits_in_a_queue_is_told_with_kueue_s_words(
    cluster: tuple[Api, Any, str], clock: list[float], wording: Wording
) -> None:
    """Each once; and again when it has waited for as long as a run may take."""
    api, client, _ = cluster
    put_job(api)
    api.objects[f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/ray-1-x"]["spec"]["suspend"] = True
    hold_back(api, "w", pod_parts.labels("ray", **{RUN_LABEL: "ray-1"}), "1 more needed")
    of_queue = {"queue": "training", "runTimeoutMinutes": "5"}

    assert [] == watched(api, client, clock, 600)[0]
    clock[0] = 0.0
    assert 1 == len(watched(api, client, clock, 290, **of_queue)[0])
    clock[0] = 0.0
    said, failed, _ = watched(api, client, clock, 600, **of_queue)
    assert [] == failed
    wording("cluster", *said)


def test_a_look_costs_as_few_requests_as_it_can(cluster: tuple[Api, Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kueue's version is asked once, and the connection is kept: a new one may run a program for credentials. After a
    failure, and with another kubeconfig, both are new."""
    api, client, _ = cluster
    hold_back(api, "w", pod_parts.labels("ray", **{RUN_LABEL: "ray-1"}), "1 more needed")
    connections: list[str] = []
    content: list[str | None] = ["a"]

    def connect(to: str) -> Any:
        connections.append(to)
        return client

    monkeypatch.setattr(kube, "own_text", lambda _: content[0])
    monkeypatch.setattr(kube, "connect", connect)
    watch = RunWatch(settings(machine(stack="s"), **OF_STACK, queue="training"), print, print)

    def look(times: int) -> tuple[int, int]:
        """The number of connections and of questions for the version."""
        connections.clear()
        api.asked.clear()
        for _ in range(times):
            watch.look_if_known()
        return len(connections), api.asked.count("GET /apis/kueue.x-k8s.io")

    assert (1, 1) == look(3)
    content[0] = "b"
    assert (1, 0) == look(3)
    api.refused[workloads := f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"] = 404
    assert (2, 2) == look(3)
    del api.refused[workloads]
    assert (1, 1) == look(3)
    content[0] = None
    assert (0, 0) == look(3)


def test_who_may_not_read_workloads_is_told_so_once(cluster: tuple[Api, Any, str], clock: list[float]) -> None:
    """And the Jobs are looked at nevertheless."""
    api, client, _ = cluster
    put_job(api)
    refuse(api, "u")
    hold_back(api, "w", {}, "")
    api.forbidden.add(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads")

    said, _, _ = watched(api, client, clock, 60, queue="training")

    assert ["workloads is forbidden" in each for each in said] == [True, False]


def test_a_ray_cluster_that_waits_in_a_queue_is_given_up_with_kueue_s_words(
    cluster: tuple[Api, Any, str], clock: list[float], wording: Wording
) -> None:
    """KubeRay says nothing of one that is suspended."""
    api, _, path = cluster
    put_ray_cluster(api, ready=0)
    hold_back(api, ray_cluster.NAME, pod_parts.labels("ray-head"), "2 more needed")
    with pytest.raises(NotReadyError) as error:
        RayReadyProvider().create(wanted(path))

    wording("cluster", str(error.value))


def wanted(path: str, workers: int = 2) -> dict[str, Any]:
    """The inputs of what waits for the RayCluster."""
    return {"uid": "r", "workers": workers, "seconds": 900, "namespace": NAMESPACE, "kubeconfig": path}


def test_a_ray_cluster_that_is_ready_is_waited_for_no_longer(cluster: tuple[Api, Any, str], clock: list[float]) -> None:
    """And again if it is another one, or has other workers."""
    api, _, path = cluster
    put_ray_cluster(api, ready=2)

    assert "r" == RayReadyProvider().create(wanted(path)).id
    assert 0.0 == clock[0]
    assert RayReadyProvider().diff("r", wanted(path), {**wanted(path), "seconds": 1}).changes is False
    for change in ({"uid": "other"}, {"workers": 3}):
        assert RayReadyProvider().diff("r", wanted(path), {**wanted(path), **change}).replaces == [*change]


@pytest.mark.parametrize(
    ("head", "ready", "workers", "is_ready"),
    [("True", 2, 2, True), ("True", 3, 2, False), ("True", None, 2, False), ("False", 2, 2, False),
     ("True", None, 0, True), ("True", 1, 0, True), ("False", None, 0, False)],
)  # fmt: skip
def test_a_ray_cluster_is_ready_with_as_many_workers_as_it_has(
    head: str, ready: int | None, workers: int, is_ready: bool
) -> None:
    """Also after one was taken away; of none KubeRay says nothing, and a run's may still be there."""
    conditions = [{"type": "HeadPodReady", "status": head}]
    status = {"conditions": conditions, **({} if ready is None else {"readyWorkerReplicas": ready})}

    assert is_ready == ray_scale.is_ready({"status": status}, workers)


def test_a_ray_worker_without_a_node_is_said_within_15_seconds(
    cluster: tuple[Api, Any, str], clock: list[float], capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """And waited for as long as Pulumi would have: a node may come."""
    api, _, path = cluster
    put_ray_cluster(api, ready=1)
    for name, status in (("head", None), ("worker-a", None), ("worker-b", unplaced())):
        api.put("/api/v1", "pods", pod(name, dict(ray_cluster.CLUSTER_LABELS), status), NAMESPACE)

    with pytest.raises(NotReadyError) as error:
        RayReadyProvider().create({**wanted(path), "seconds": 15})
    early = capsys.readouterr().out
    assert early
    clock[0] = 0.0
    with pytest.raises(NotReadyError):
        RayReadyProvider().create(wanted(path))
    assert 900 <= clock[0]
    wording("cluster", early.strip(), str(error.value))


@pytest.mark.parametrize("is_true_still", [True, False])
def test_a_refused_ray_worker_ends_the_update_after_two_minutes(
    is_true_still: bool, cluster: tuple[Api, Any, str], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of an update before is none: KubeRay tries again after up to a quarter of an hour."""
    api, _, path = cluster
    put_ray_cluster(api, ready=1)
    refuse(api, "r", reason="FailedToCreateWorkerPod")

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        refuse(api, "r", count=2 if is_true_still else 1, reason="FailedToCreateWorkerPod")

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(NotReadyError) as error:
        RayReadyProvider().create(wanted(path))

    assert is_true_still == ("exceeded quota" in str(error.value))
    assert is_true_still == (clock[0] < 130)


def test_without_a_ray_cluster_there_is_nothing_to_wait_for(cluster: tuple[Api, Any, str], clock: list[float]) -> None:
    """Somebody deleted it; the line that recreates it is told."""
    with pytest.raises(ScaleError, match="pulumi refresh"):
        RayReadyProvider().create(wanted(cluster[2]))


def test_who_may_not_list_events_waits(cluster: tuple[Api, Any, str], clock: list[float]) -> None:
    """Until the deadline, as before."""
    api, client, _ = cluster
    put_job(api)
    api.forbidden.add(f"/api/v1/namespaces/{NAMESPACE}/events")

    assert ([], []) == watched(api, client, clock, 2 * waits.GIVE_UP_SECONDS)[:2]
