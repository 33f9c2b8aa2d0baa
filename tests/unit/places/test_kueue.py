"""What a run in a queue has of Kueue: how long it waited, and whether it was evicted. A real Kueue: tests/platform."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import job_result
from infra.places.cluster.api import kube, kueue
from infra.places.cluster.manifests import pod_parts, ray_cluster
from infra.places.kubernetes import inspection
from tests.unit.kube_api import NAMESPACE, Api, node, serving
from tests.unit.results import make_result
from tests.unit.settings_machine import settings

SERVED = "kueue.x-k8s.io/v1beta2"
QUEUES, CLUSTER_QUEUES = f"/apis/{SERVED}/namespaces/{NAMESPACE}/localqueues", f"/apis/{SERVED}/clusterqueues"
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
        yield api, kube.connect(kubeconfig)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A LocalQueue or a ClusterQueue that is active."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Active", "status": "True"}]}}


def room() -> dict[str, Any]:
    """Quota for everything."""
    amounts = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "64"), ("memory", "256Gi"))]
    return {"flavors": [{"name": "default", "resources": amounts}]}


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
    """Without a queue at its creation."""
    ready = {"type": job_result.PROVISIONED, "status": "True", "lastTransitionTime": "2026-01-01T10:05:00Z"}
    admitted = {"type": job_result.SUSPENDED, "status": "False", "lastTransitionTime": "2026-01-01T10:04:20Z"}
    ray = {"metadata": JOB["metadata"], "status": {"conditions": [ready]}}

    assert 300.0 == job_result.start_seconds(ray)
    assert 40.0 == job_result.start_seconds({**ray, "status": {"conditions": [ready, admitted]}})


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
