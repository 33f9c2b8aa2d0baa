"""What pods wait for: who says it, and who ends what waits in vain."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.places.cluster import ray_ready
from infra.places.cluster.api import kube, ray_scale, waits
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.job_result import UID_LABEL
from infra.places.cluster.manifests import pod_parts, ray_cluster
from infra.places.cluster.manifests.pod_parts import RUN_LABEL, STACK_ANNOTATION
from infra.places.cluster.ray_ready import NotReadyError, RayReadyProvider
from infra.places.cluster.run_watch import RunWatch
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api
from tests.unit.places.clock import Clock
from tests.unit.settings_machine import existing, machine

QUOTA = 'Error creating: pods "ray-1-{}" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1'
NO_NODE = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: none."
UNPLACED = {"conditions": [{"type": "PodScheduled", "status": "False", "message": NO_NODE}]}
NO_IMAGE = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nowhere/none:1"'}}
JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/ray-1-x"
KUEUE = "kueue.x-k8s.io"
WORKLOADS = f"/apis/{KUEUE}/v1beta2/namespaces/{NAMESPACE}/workloads"
OF_RUN = pod_parts.labels("ray", **{RUN_LABEL: "ray-1"})
LOOK_SECONDS = 5.0
ALL_SECONDS = waits.GIVE_UP_SECONDS + 30


def refuse(api: Api, uid: str, count: int = 1, reason: str = "FailedCreate") -> None:
    """Let a pod of an object be refused, and nobody see its name again."""
    event = {"metadata": {"name": "refused", "uid": "e"}, "count": count, "reason": reason,
             "message": QUOTA.format(count), "involvedObject": {"uid": uid}}  # fmt: skip
    api.put("/api/v1", "events", event, NAMESPACE)


def put_pod(api: Api, name: str, labels: dict[str, str], status: dict[str, Any] | None = None) -> None:
    """A pod with this status."""
    item = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status or {"phase": "Running"}}
    api.put("/api/v1", "pods", item, NAMESPACE)


def put_job(api: Api) -> None:
    """The Job of a run that goes on."""
    api.objects[JOB] = {
        "metadata": {"name": "ray-1-x", "uid": "u", "annotations": {STACK_ANNOTATION: "s"}},
        "status": {},
        "spec": {"template": {"metadata": {"labels": {RUN_LABEL: "ray-1"}}}},
    }


def put_ray_cluster(api: Api, ready: int) -> None:
    """A RayCluster with so many workers that are ready."""
    status = {"conditions": [{"type": "HeadPodReady", "status": "True"}], "readyWorkerReplicas": ready}
    item = {"metadata": {"name": ray_cluster.NAME, "uid": "r"}, "spec": {}, "status": status}
    api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", item, NAMESPACE)


def hold_back(api: Api, name: str, labels: dict[str, str], message: str) -> None:
    """A Workload of ours that Kueue does not admit."""
    api.objects[f"/apis/{KUEUE}"] = {"preferredVersion": {"groupVersion": f"{KUEUE}/v1beta2"}, "metadata": {}}
    waits_for = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    api.objects[f"{WORKLOADS}/{name}"] = {
        "metadata": {"name": name, "ownerReferences": [{"name": name}]},
        "spec": {"queueName": "training", "podSets": [{"template": {"metadata": {"labels": labels}}}]},
        "status": {"conditions": [waits_for]},
    }


@dataclass
class Watched:
    """What was said of a run, and of its failure, each with its time."""

    said: list[tuple[float, str]] = field(default_factory=list)
    failed: list[tuple[float, str]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """All of it."""
        return [text for _, text in self.said + self.failed]


Watch = Callable[..., Watched]


@pytest.fixture
def watch(api: Api, client: Any, clock: Clock) -> Watch:
    """Watches the run of a stack with these settings for so many seconds."""
    put_job(api)

    def look(seconds: float = ALL_SECONDS, **values: str) -> Watched:
        seen, clock.now = Watched(), 0.0
        watching = RunWatch(
            existing(machine(stack="s"), **values),
            lambda text: seen.said.append((clock.now, text)),
            lambda text: seen.failed.append((clock.now, text)),
        )
        while clock.now <= seconds:
            watching.look(client)
            clock.sleep(LOOK_SECONDS)
        return seen

    return look


def test_a_run_whose_pod_is_refused_ends_after_two_minutes(api: Api, watch: Watch, wording: Wording) -> None:
    """With the reason, once: a quota, a limit range, Pod Security, a webhook."""
    refuse(api, "u")

    seen = watch()

    assert 1 == len(seen.said)
    assert [120.0] == [when for when, _ in seen.failed]
    assert 1 == api.objects[JOB]["spec"]["activeDeadlineSeconds"]
    wording("cluster", *seen.texts)


@pytest.mark.parametrize(
    ("status", "ends"), [(UNPLACED, False), ({"containerStatuses": [{"state": NO_IMAGE}]}, True)], ids=["node", "image"]
)
def test_a_run_waits_for_a_node_and_not_for_an_image(
    status: dict[str, Any], ends: bool, api: Api, watch: Watch
) -> None:
    """Nodes come and go; an image that is not pulled for two minutes does not come. Both are said within 15 s."""
    put_pod(api, "ray-1-x-a", {UID_LABEL: "u"}, status)

    seen = watch()

    assert seen.said[0][0] <= 15
    assert ends == bool(seen.failed) == ("activeDeadlineSeconds" in api.objects[JOB]["spec"])


@pytest.mark.parametrize("why", ["it was let in since", "of another stack", "held back", "events may not be read"])
def test_a_run_goes_on_if_its_pods_are_not_known_to_be_refused(why: str, api: Api, watch: Watch) -> None:
    """An event stays for an hour after the pod was let in; another stack's update looks after its own; a Job that is
    held back has no pods; who may not list events waits until the deadline."""
    refuse(api, "u")
    job = api.objects[JOB]
    if why == "it was let in since":
        put_pod(api, "ray-1-x-a", {UID_LABEL: "u"})
    elif why == "of another stack":
        job["metadata"]["annotations"][STACK_ANNOTATION] = "t"
    elif why == "held back":
        job["spec"]["suspend"] = True
    else:
        api.forbidden.add(f"/api/v1/namespaces/{NAMESPACE}/events")

    assert [] == watch().texts


def test_what_waits_in_a_queue_is_told_with_kueue_s_words(api: Api, watch: Watch, wording: Wording) -> None:
    """Each once; and again when it has waited for as long as a run may take."""
    api.objects[JOB]["spec"]["suspend"] = True
    hold_back(api, "w", OF_RUN, "1 more needed")

    assert [] == watch().texts
    seen = watch(600, queue="training", runTimeoutMinutes="5")
    assert [False, True] == [when >= 300 for when, _ in seen.said]
    wording("cluster", *seen.texts)


def test_who_may_not_read_workloads_is_told_so_once(api: Api, watch: Watch) -> None:
    """And the Jobs are looked at nevertheless."""
    refuse(api, "u")
    hold_back(api, "w", {}, "")
    api.forbidden.add(WORKLOADS)

    seen = watch(60, queue="training")

    assert ["workloads is forbidden" in each for each in seen.texts] == [True, False]


def test_a_look_costs_as_few_requests_as_it_can(api: Api, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kueue's version is asked once, and the connection is kept: a new one may run a program for credentials. After a
    failure, and with another kubeconfig, both are new."""
    hold_back(api, "w", OF_RUN, "1 more needed")
    connections: list[str] = []
    content: list[str | None] = ["a"]

    def connect(to: str) -> Any:
        connections.append(to)
        return client

    monkeypatch.setattr(kube, "own_text", lambda _: content[0])
    monkeypatch.setattr(kube, "connect", connect)
    watching = RunWatch(existing(machine(stack="s"), queue="training"), print, print)

    def look() -> tuple[int, int]:
        """Look three times: the number of connections and of questions for the version."""
        connections.clear()
        api.asked.clear()
        for _ in range(3):
            watching.look_if_known()
        return len(connections), api.asked.count(f"GET /apis/{KUEUE}")

    assert (1, 1) == look()
    content[0] = "b"
    assert (1, 0) == look()
    api.refused[WORKLOADS] = 404
    assert (2, 2) == look()
    del api.refused[WORKLOADS]
    assert (1, 1) == look()
    content[0] = None
    assert (0, 0) == look()


@pytest.fixture
def wanted(kubeconfig: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The inputs of what waits for the RayCluster."""
    monkeypatch.setattr(ray_ready, "POLL_SECONDS", LOOK_SECONDS)
    return {"uid": "r", "workers": 2, "seconds": 300, "namespace": NAMESPACE, "kubeconfig": kubeconfig}


def not_ready(wanted: dict[str, Any]) -> str:
    """Why the RayCluster is not ready."""
    with pytest.raises(NotReadyError) as error:
        RayReadyProvider().create(wanted)
    return str(error.value)


def test_a_ray_cluster_that_waits_in_a_queue_is_given_up_with_kueue_s_words(
    api: Api, wanted: dict[str, Any], wording: Wording
) -> None:
    """KubeRay says nothing of one that is suspended."""
    put_ray_cluster(api, ready=0)
    hold_back(api, ray_cluster.NAME, pod_parts.labels("ray-head"), "2 more needed")

    wording("cluster", not_ready(wanted | {"seconds": 60}))


def test_a_ray_cluster_that_is_ready_is_waited_for_no_longer(api: Api, wanted: dict[str, Any], clock: Clock) -> None:
    """And again if it is another one, or has other workers."""
    put_ray_cluster(api, ready=2)

    assert "r" == RayReadyProvider().create(wanted).id
    assert 0.0 == clock.now
    assert RayReadyProvider().diff("r", wanted, {**wanted, "seconds": 1}).changes is False
    for change in ({"uid": "other"}, {"workers": 3}):
        assert RayReadyProvider().diff("r", wanted, {**wanted, **change}).replaces == [*change]


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
    api: Api, wanted: dict[str, Any], clock: Clock, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """And waited for as long as Pulumi would have: a node may come."""
    put_ray_cluster(api, ready=1)
    for name, status in (("head", None), ("worker-a", None), ("worker-b", UNPLACED)):
        put_pod(api, name, dict(ray_cluster.CLUSTER_LABELS), status)
    early: list[str] = []
    clock.at(15, lambda: early.append(capsys.readouterr().out))

    why = not_ready(wanted)

    assert 300 <= clock.now
    wording("cluster", early[0].strip(), why)


@pytest.mark.parametrize("is_true_still", [True, False])
def test_a_refused_ray_worker_ends_the_update_after_two_minutes(
    is_true_still: bool, api: Api, wanted: dict[str, Any], clock: Clock
) -> None:
    """A refusal of an update before is none: KubeRay tries again after up to a quarter of an hour."""
    put_ray_cluster(api, ready=1)
    refuse(api, "r", reason="FailedToCreateWorkerPod")
    if is_true_still:
        clock.at(LOOK_SECONDS, lambda: refuse(api, "r", count=2, reason="FailedToCreateWorkerPod"))

    why = not_ready(wanted)

    assert is_true_still == ("exceeded quota" in why)
    assert is_true_still == (clock.now < 140)


@pytest.mark.parametrize("is_true_still", [True, False])
def test_refused_workers_of_a_run_are_given_up_by_a_refusal_of_this_run(
    is_true_still: bool, api: Api, client: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a run before is none: the RayCluster is the same, and the quota may not be."""
    monkeypatch.setattr(ray_scale, "POLL_SECONDS", LOOK_SECONDS)
    put_ray_cluster(api, ready=0)
    cluster = f"/apis/{ray_cluster.API_VERSION}/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"
    api.objects[cluster]["spec"]["workerGroupSpecs"] = [{"replicas": 0}]
    refuse(api, "r", reason="FailedToCreateWorkerPod")
    if is_true_still:
        clock.at(LOOK_SECONDS, lambda: refuse(api, "r", count=2, reason="FailedToCreateWorkerPod"))

    with pytest.raises(ScaleError) as error:
        ray_scale.up(client, NAMESPACE, "ray-2", workers=1, seconds=200.0)

    assert is_true_still == ("exceeded quota" in str(error.value))
    assert is_true_still == (clock.now < 140)


def test_without_a_ray_cluster_there_is_nothing_to_wait_for(wanted: dict[str, Any]) -> None:
    """Somebody deleted it; the line that recreates it is told."""
    with pytest.raises(ScaleError, match="pulumi refresh"):
        RayReadyProvider().create(wanted)
