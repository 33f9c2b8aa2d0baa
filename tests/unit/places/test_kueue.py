"""What a run in a queue has of Kueue: how long it waited, and whether it was evicted. A real Kueue: tests/platform."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra.places.cluster import job_result
from infra.places.cluster.api import kube, kueue
from infra.places.cluster.manifests import pod_parts, ray_cluster
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import inspection
from infra.places.kubernetes.place import ExistingCluster
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, node, serving, trust_without_certificate
from tests.unit.kueue_objects import group
from tests.unit.results import make_result
from tests.unit.settings_machine import settings

SERVED = "kueue.x-k8s.io/v1beta2"
QUEUES, CLUSTER_QUEUES = f"/apis/{SERVED}/namespaces/{NAMESPACE}/localqueues", f"/apis/{SERVED}/clusterqueues"
COHORTS = f"/apis/{SERVED}/cohorts"
JOB: dict[str, Any] = {
    "metadata": {"name": "ray-1", "uid": "of-job", "creationTimestamp": "2026-01-01T10:00:00Z"},
    "status": {"startTime": "2026-01-01T10:02:30Z", "completionTime": "2026-01-01T10:09:00Z"},
}
OF_STACK = {"target": "kubernetes", "image": "registry.example.com/a:1", "kubeContext": "test", "queue": "training"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Api, Any]]:
    """A cluster with Kueue, a RayCluster and a queue with room; and a client of it."""
    with serving(tmp_path) as (api, kubeconfig):
        api.objects["/apis/kueue.x-k8s.io"] = {"preferredVersion": {"groupVersion": SERVED}, "metadata": {}}
        api.put("/api/v1", "nodes", node("one", "64", "256Gi"))
        group = f"/apis/{ray_cluster.API_VERSION}"
        api.put(group, "rayclusters", {"metadata": {"name": ray_cluster.NAME, "uid": "of-ray"}}, NAMESPACE)
        api.put(f"/apis/{SERVED}", "localqueues", queue("training", clusterQueue="team"), NAMESPACE)
        team = queue("team", resourceGroups=[room()], namespaceSelector={})
        api.put(f"/apis/{SERVED}", "clusterqueues", team)
        labels = {pod_parts.PROJECT_LABEL: pod_parts.PROJECT}
        api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
        api.on_dry_run = suspend
        yield api, kube.connect(kubeconfig)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A LocalQueue or a ClusterQueue that is active."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Active", "status": "True"}]}}


def suspend(item: dict[str, Any], *kinds: str) -> None:
    """What Kueue's webhook makes of an object in a queue; of these kinds alone, if any is named."""
    if item["metadata"]["labels"][QUEUE_LABEL] and (not kinds or item["kind"] in kinds):
        item["spec"]["suspend"] = True


def room() -> dict[str, Any]:
    """Quota for everything."""
    return group({"default": {"cpu": "64", "memory": "256Gi"}})


def workload(uid: str, evicted_at: str = "", *reasons: str) -> dict[str, Any]:
    """The Workload of an object, evicted at some time and admitted again."""
    condition = {"type": "Evicted", "status": "False", "reason": "QuotaReserved", "lastTransitionTime": evicted_at}
    stats = {"schedulingStats": {"evictions": [{"reason": each} for each in reasons]}} if reasons else {}
    conditions = [condition] if evicted_at else [{"type": "Admitted", "status": "True"}]
    labels = {kueue.UID_LABEL: uid}
    return {"metadata": {"name": f"of-{uid}", "labels": labels}, "status": {"conditions": conditions, **stats}}


def evicted(cluster: tuple[Api, Any], *workloads: dict[str, Any]) -> str:
    """Why the run counts for nothing."""
    api, client = cluster
    for each in workloads:
        api.put(f"/apis/{SERVED}", "workloads", each, NAMESPACE)
    return kueue.eviction(client, NAMESPACE, JOB)


def problems(cluster: tuple[Api, Any], **values: str) -> list[str]:
    """What stands in the way of a stack in a queue."""
    return [str(each) for each in inspection.problems(cluster[1], settings(**{**OF_STACK, **values}))]


def test_a_run_that_was_evicted_is_named_with_the_reason(cluster: tuple[Api, Any]) -> None:
    """Also where the Workload does not keep why."""
    assert "" == evicted(cluster, workload("of-job"), workload("of-ray"))
    assert "Preempted" == evicted(cluster, workload("of-job", "2026-01-01T10:05:00Z", "Preempted"))
    assert "QuotaReserved" == evicted(cluster, workload("of-job", "2026-01-01T10:01:00Z"))


def test_the_ray_cluster_counts_while_the_run_went_on(cluster: tuple[Api, Any]) -> None:
    """What happened to it before is over."""
    assert "" == evicted(cluster, workload("of-ray", "2026-01-01T10:02:00Z", "Preempted"), workload("of-job"))
    assert "Preempted" == evicted(cluster, workload("of-ray", "2026-01-01T10:05:00Z", "Preempted"))


@pytest.mark.parametrize(("status", "counts"), [("True", False), ("False", True)])
def test_an_eviction_after_the_run_is_none_of_it(status: str, *, counts: bool) -> None:
    """If its time is known: it is not of one that was admitted again."""
    condition = {
        "type": "Evicted",
        "status": status,
        "reason": "Preempted",
        "lastTransitionTime": "2026-01-01T10:09:01Z",
    }
    found = kueue.evicted({"status": {"conditions": [condition]}}, *JOB["status"].values())

    assert counts == bool(found)


def test_what_kueue_did_to_the_project_is_told(cluster: tuple[Api, Any]) -> None:
    """One that waits and one that was evicted; not one that has ended, and nobody else's."""
    api, client = cluster
    waits = {"type": "QuotaReserved", "status": "False", "message": "1 more needed", "lastTransitionTime": "10:01"}
    ended = {"type": "Finished", "status": "True", "lastTransitionTime": "10:02"}
    ours = pod_parts.labels("baseline", **{pod_parts.RUN_LABEL: "baseline-1"})
    for number, (labels, conditions) in enumerate([(ours, [waits]), (ours, [waits, ended]), ({}, [waits])]):
        metadata = {"name": f"w{number}", "uid": f"w{number}", "ownerReferences": [{"name": "a"}]}
        spec = {"queueName": "training", "podSets": [{"template": {"metadata": {"labels": labels}}}]}
        found = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
        api.put(f"/apis/{SERVED}", "workloads", found, NAMESPACE)

    ((key, said),) = kueue.troubles(client, NAMESPACE).items()
    assert "w0 10:01" == key
    assert said.startswith("baseline-1: ")
    assert said.endswith(waits["message"])


@pytest.mark.parametrize(("state", "condition"), [("Ready", "Admitted"), ("Pending", "Finished")])
def test_a_check_that_keeps_the_project_waiting_is_told(
    cluster: tuple[Api, Any], wording: Wording, state: str, condition: str
) -> None:
    """An administrator may add checks to quota; not one that let it start, or after it ended."""
    api, client = cluster
    labels = pod_parts.labels("baseline", **{pod_parts.RUN_LABEL: "baseline-1"})
    spec = {"queueName": "training", "podSets": [{"template": {"metadata": {"labels": labels}}}]}
    check = {"name": "nodes", "state": "Pending", "message": "no capacity", "lastTransitionTime": "10:02"}
    status = {"conditions": [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "10:01"}]}
    metadata = {"name": "w", "uid": "w", "ownerReferences": [{"name": "baseline-1"}]}
    found = {"metadata": metadata, "spec": spec, "status": {**status, "admissionChecks": [check]}}
    api.put(f"/apis/{SERVED}", "workloads", found, NAMESPACE)
    ((key, said),) = kueue.troubles(client, NAMESPACE).items()

    assert "w 10:02" == key
    wording("cluster", said)
    check["state"] = state
    status["conditions"].append({"type": condition, "status": "True", "lastTransitionTime": "10:03"})
    api.put(f"/apis/{SERVED}", "workloads", found, NAMESPACE)
    assert {} == kueue.troubles(client, NAMESPACE)


def test_without_kueue_nothing_was_evicted(cluster: tuple[Api, Any]) -> None:
    """As after it was removed."""
    del cluster[0].objects["/apis/kueue.x-k8s.io"]
    assert "" == evicted(cluster)


def test_the_wait_is_in_no_other_number() -> None:
    """From the Job's creation until it started; a Job that never did says nothing."""
    before = make_result("baseline")
    after = job_result.with_queue(before, JOB)

    assert 150.0 == after.seconds.queued
    assert before.seconds.wall == after.seconds.wall
    assert before == job_result.with_queue(before, {}) == job_result.with_queue(before, {**JOB, "status": {}})


def test_the_start_of_the_ray_cluster_begins_when_it_is_admitted() -> None:
    """Without a queue at its creation, though KubeRay gives the condition to every one."""
    ready = {"type": job_result.PROVISIONED, "status": "True", "lastTransitionTime": "2026-01-01T10:05:00Z"}
    admitted = {"type": job_result.SUSPENDED, "status": "False", "lastTransitionTime": "2026-01-01T10:04:20Z"}
    ray = {"metadata": JOB["metadata"], "status": {"conditions": [ready]}}

    assert 300.0 == job_result.start_seconds(ray)
    in_queue = {**JOB["metadata"], "labels": {QUEUE_LABEL: "training"}}
    seen = {"conditions": [ready, admitted]}
    assert 40.0 == job_result.start_seconds({"metadata": in_queue, "status": seen})
    assert 300.0 == job_result.start_seconds({**ray, "status": seen})


def test_a_queue_that_admits_the_stack_is_no_obstacle(cluster: tuple[Api, Any]) -> None:
    """Nor is one that the user may not look at, or none that is asked for."""
    assert [] == problems(cluster)
    cluster[0].objects[f"{CLUSTER_QUEUES}/team"]["spec"]["resourceGroups"] = []
    assert [] != problems(cluster)
    assert [] == problems(cluster, queue="")
    cluster[0].forbidden.add(QUEUES)
    assert [] == problems(cluster)


def test_what_is_missing_is_refused(cluster: tuple[Api, Any]) -> None:
    """A ClusterQueue, a LocalQueue, Kueue itself; each with a line that helps."""
    api, _ = cluster
    api.put(f"/apis/{SERVED}", "localqueues", queue("another", clusterQueue="team"), NAMESPACE)
    lost = [f"{CLUSTER_QUEUES}/team", f"{QUEUES}/training", "/apis/kueue.x-k8s.io"]
    said = []
    for path in lost:
        del api.objects[path]
        said += problems(cluster)

    assert len(lost) == len(set(said))
    assert all("pulumi config rm queue" in each for each in said)


def test_a_local_queue_that_is_stopped_is_refused_without_the_right_to_see_more(cluster: tuple[Api, Any]) -> None:
    """Its own status says so; ClusterQueues are often the administrator's to read."""
    api, _ = cluster
    stopped = {"type": "Active", "status": "False", "message": "LocalQueue is stopped"}
    api.forbidden.add(f"{CLUSTER_QUEUES}/team")
    assert [] == problems(cluster)
    api.objects[f"{QUEUES}/training"]["status"]["conditions"] = [stopped]

    (said,) = problems(cluster)
    assert str(stopped["message"]) in said


def test_what_is_kept_off_the_nodes_with_gpus_takes_none_of_their_flavor(cluster: tuple[Api, Any]) -> None:
    """Ray's head is by its affinity: the CPUs of that flavour are for the pods that train."""
    api, _ = cluster
    labels, gpu = {"accelerator": "h100"}, "nvidia.com/gpu"
    with_gpus = node("gpu", "64", "256Gi")
    with_gpus["metadata"]["labels"] = labels
    with_gpus["status"]["allocatable"][gpu] = "8"
    api.put("/api/v1", "nodes", with_gpus)
    flavors = {"gpus": {"cpu": "4", "memory": "64Gi", gpu: "4"}, "cpus": {"cpu": "4", "memory": "64Gi", gpu: "0"}}
    team = queue("team", resourceGroups=[group(flavors)], namespaceSelector={})
    api.put(f"/apis/{SERVED}", "clusterqueues", team)
    for name, of_flavor in {"gpus": labels, "cpus": {}}.items():
        flavor = {"metadata": {"name": name}, "spec": {"nodeLabels": of_flavor}}
        api.put(f"/apis/{SERVED}", "resourceflavors", flavor)
    of_gpus = {"workload": "script", "script": "examples/torch_ddp.py", "workers": "2", "workerCpus": "1"}

    assert [] == problems(cluster, **of_gpus, workerGpus="1", gpuNodeSelector="accelerator=h100")


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        (["Job"], [kueue.OF_RAY]),
        (["RayCluster"], [kueue.OF_JOBS]),
        (["Pod"], [kueue.OF_RAY, kueue.OF_JOBS]),
        (["Job", "RayCluster"], []),
    ],
)
def test_a_kind_that_kueue_does_not_suspend_is_named(
    cluster: tuple[Api, Any], kinds: list[str], named: list[str]
) -> None:
    """By the name that its configuration has for it; and nothing was made."""
    api, _ = cluster
    before = set(api.objects)
    api.on_dry_run = lambda item: suspend(item, *kinds)
    said = problems(cluster)

    assert named == [each for each in (kueue.OF_RAY, kueue.OF_JOBS) if any(each in problem for problem in said)]
    assert bool(named) == any("pulumi config rm queue" in problem for problem in said)
    assert before == set(api.objects)
    assert [] == problems(cluster, queue="")


@pytest.mark.parametrize("status", [403, 404, 400, 422, 500])
def test_a_dry_run_that_is_refused_says_nothing(cluster: tuple[Api, Any], status: int) -> None:
    """For a missing right or kind, a quota of the namespace, somebody's rule, or a webhook that does not answer."""
    api, _ = cluster
    api.on_dry_run = lambda item: suspend(item, "Job")
    assert [] != problems(cluster)
    api.refused[f"/apis/{ray_cluster.API_VERSION}/namespaces/{NAMESPACE}/rayclusters"] = status

    assert [] == problems(cluster)


def test_who_may_not_read_quota_is_told_of_the_integrations(cluster: tuple[Api, Any]) -> None:
    """ClusterQueues are often the administrator's to read."""
    api, _ = cluster
    api.on_dry_run = lambda _: None
    api.forbidden.add(f"{CLUSTER_QUEUES}/team")

    assert 1 == len(problems(cluster))


def test_who_may_not_ask_for_kueue_is_let_through(cluster: tuple[Api, Any]) -> None:
    """Neither quota nor integrations are known then."""
    api, _ = cluster
    api.on_dry_run = lambda _: None
    api.forbidden.add("/apis/kueue.x-k8s.io")

    assert [] == problems(cluster)


@pytest.mark.parametrize(
    ("limit", "path", "status", "fits"),
    [
        ("", "", 0, False),
        ("", CLUSTER_QUEUES, 403, True),
        (" borrows 1", CLUSTER_QUEUES, 403, False),
        (" borrows 60", CLUSTER_QUEUES, 403, True),
        ("", COHORTS, 403, True),
        ("", COHORTS, 404, False),
    ],
)
def test_a_cohort_that_nobody_may_list_may_lend_what_is_borrowed(
    cluster: tuple[Api, Any], *, limit: str, path: str, status: int, fits: bool
) -> None:
    """Up to the queue's own limit. A Kueue without Cohorts has none."""
    api, _ = cluster
    few = group({"default": {"cpu": f"1{limit}", "memory": f"1Gi{limit and ' borrows 99Gi'}"}})
    queues = [queue("team", resourceGroups=[few], namespaceSelector={}, cohortName="all"), queue("b", cohortName="all")]
    for each in queues:
        api.put(f"/apis/{SERVED}", "clusterqueues", each)
    api.put(f"/apis/{SERVED}", "cohorts", {"metadata": {"name": "all"}})
    if path:
        api.refused[path] = status

    assert fits == (not problems(cluster))


@pytest.mark.parametrize("is_preview", [True, False])
def test_a_preview_and_an_update_refuse_it(
    cluster: tuple[Api, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_preview: bool
) -> None:
    """`rwi doctor` says the same; `allowOversubscription` does not lift it."""
    trust_without_certificate(monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: is_preview)
    monkeypatch.setattr(pulumi.log, "info", lambda _: None)
    asked = settings(**OF_STACK, allowOversubscription="true")
    ExistingCluster().survey(asked)
    assert all(finding.ok for finding in ExistingCluster().doctor(asked))
    cluster[0].on_dry_run = lambda item: suspend(item, "Job")

    with pytest.raises(pulumi.RunError, match=kueue.OF_RAY):
        ExistingCluster().survey(asked)
    (finding,) = [each for each in ExistingCluster().doctor(asked) if not each.ok]
    assert kueue.OF_RAY in finding.fix


def job_and_ray(job: dict[str, Any], ray: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Job, and a RayCluster, with these parts of what they have; their pods are templates without a label."""
    made = {**JOB, "spec": {"template": {}}, **job}
    head: dict[str, Any] = {"headGroupSpec": {"template": {"metadata": {}}}}
    return made, {"metadata": {"name": ray_cluster.NAME}, "spec": head, **ray}


HELD = {"template": {"metadata": {"labels": {kueue.PODSET_LABEL: "main"}}}}


@pytest.mark.parametrize(
    ("job", "ray", "alone"),
    [
        ({}, {}, [kueue.OF_JOBS, kueue.OF_RAY]),
        ({"spec": HELD}, {"spec": {"headGroupSpec": HELD}}, []),
        ({"spec": HELD}, {}, [kueue.OF_RAY]),
        ({"status": {"conditions": [{"type": "Suspended", "status": "False"}]}}, {"spec": {"headGroupSpec": HELD}}, []),
        ({"spec": HELD}, {"status": {"conditions": [{"type": job_result.SUSPENDED}]}}, [kueue.OF_RAY]),
        ({"spec": HELD}, {"spec": {"headGroupSpec": {"template": {}}, "suspend": False}}, []),
        ({"spec": {"template": {}, "suspend": False}}, {"spec": {"headGroupSpec": HELD}}, [kueue.OF_JOBS]),
    ],
)
def test_what_kueue_never_held_back_is_named(
    cluster: tuple[Api, Any], job: dict[str, Any], ray: dict[str, Any], alone: list[str]
) -> None:
    """By the object itself: Kueue may delete the Workload of what has ended."""
    api, client = cluster
    of_job, of_ray = job_and_ray(job, ray)
    api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", of_ray, NAMESPACE)

    assert alone == kueue.left_alone(client, NAMESPACE, of_job)


def test_a_ray_cluster_that_is_gone_says_nothing(cluster: tuple[Api, Any]) -> None:
    """It was deleted since."""
    api, client = cluster
    del api.objects[f"/apis/{ray_cluster.API_VERSION}/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"]

    assert [] == kueue.left_alone(client, NAMESPACE, {**JOB, "spec": HELD})
