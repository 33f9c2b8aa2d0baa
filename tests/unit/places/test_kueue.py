"""What a stack in a queue has of Kueue: whether there is such a queue, and what waits there or was evicted.

A real Kueue: tests/platform.
"""

from typing import Any

import pulumi
import pytest

from infra.places.cluster import job_result
from infra.places.cluster.api import kueue
from infra.places.cluster.manifests import pod_parts, queue, ray_cluster
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import inspection
from infra.places.kubernetes.place import ExistingCluster
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, node, trust_without_certificate
from tests.unit.results import make_result
from tests.unit.settings_machine import existing

SERVED = "kueue.x-k8s.io/v1beta2"
RAY = f"/apis/{ray_cluster.API_VERSION}/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"
QUEUES = f"/apis/{SERVED}/namespaces/{NAMESPACE}/localqueues"
IN_QUEUE = {"queue": "training"}
JOB: dict[str, Any] = {
    "metadata": {"name": "ray-1", "uid": "of-job", "creationTimestamp": "2026-01-01T10:00:00Z"},
    "status": {"startTime": "2026-01-01T10:02:30Z", "completionTime": "2026-01-01T10:09:00Z"},
}


@pytest.fixture(autouse=True)
def _queue(api: Api) -> None:
    """Kueue, a RayCluster and a queue."""
    api.objects["/apis/kueue.x-k8s.io"] = {"preferredVersion": {"groupVersion": SERVED}, "metadata": {}}
    api.put("/api/v1", "nodes", node("one", "64", "256Gi"))
    api.objects[RAY] = {"metadata": {"name": ray_cluster.NAME, "uid": "of-ray"}}
    api.put(f"/apis/{SERVED}", "localqueues", local_queue("training", clusterQueue="team"), NAMESPACE)
    labels = {pod_parts.PROJECT_LABEL: pod_parts.PROJECT}
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})


@pytest.fixture
def surveyed(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a survey of the cluster warns of."""
    warnings: list[str] = []
    trust_without_certificate(monkeypatch)
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    monkeypatch.setattr(pulumi.log, "info", lambda _: None)
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    return warnings


def local_queue(name: str, **spec: Any) -> dict[str, Any]:
    """A LocalQueue that is active."""
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Active", "status": "True"}]}}


def workload(uid: str, evicted_at: str = "", *reasons: str, has_started: bool = True) -> dict[str, Any]:
    """The Workload of an object, evicted at some time of that hour and admitted again."""
    at = f"2026-01-01T10:{evicted_at}:00Z"
    condition = {"type": "Evicted", "status": "False", "reason": "QuotaReserved", "lastTransitionTime": at}
    stats: dict[str, Any] = {}
    if reasons:
        stats["schedulingStats"] = {"evictions": [{"reason": each} for each in reasons]}
    if has_started:
        stats["accumulatedPastExecutionTimeSeconds"] = 0
    conditions = [condition] if evicted_at else [{"type": "Admitted", "status": "True"}]
    labels = {kueue.UID_LABEL: uid}
    return {"metadata": {"name": f"of-{uid}", "labels": labels}, "status": {"conditions": conditions, **stats}}


def put(api: Api, *workloads: dict[str, Any]) -> None:
    """Add these to the cluster."""
    for each in workloads:
        api.put(f"/apis/{SERVED}", "workloads", each, NAMESPACE)


def problems(client: Any, **values: str) -> list[str]:
    """What stands in the way of a stack in a queue."""
    return [str(each) for each in inspection.problems(client, existing(**{**IN_QUEUE, **values}))]


DEACTIVATED = "DeactivatedDueToMaximumTime"


@pytest.mark.parametrize(
    ("workloads", "reason"),
    [
        ([workload("of-job"), workload("of-ray")], ""),
        ([workload("of-job", "05", "Preempted")], "Preempted"),
        # Also where the Workload does not keep why
        ([workload("of-job", "01", has_started=False)], "QuotaReserved"),
        # The RayCluster counts while the run went on: what happened to it before is over
        ([workload("of-ray", "02", "Preempted"), workload("of-job")], ""),
        ([workload("of-ray", "05", "Preempted")], "Preempted"),
        # What was taken back before the run started, as an admission check that is tried again does, is no eviction of
        # it. Of one that was deactivated since, Kueue no longer says whether it had started
        ([workload("of-job", "01", "AdmissionCheck", has_started=False)], ""),
        ([workload("of-job", "01", DEACTIVATED, has_started=False)], DEACTIVATED),
    ],
)
def test_a_run_that_was_evicted_is_named_with_the_reason(
    workloads: list[dict[str, Any]], reason: str, api: Api, client: Any
) -> None:
    """It counts for nothing. Where Kueue is no longer, nothing was evicted."""
    put(api, *workloads)
    assert reason == kueue.eviction(client, NAMESPACE, JOB)
    del api.objects["/apis/kueue.x-k8s.io"]
    assert "" == kueue.eviction(client, NAMESPACE, JOB)


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


def in_queue(uid: str, labels: dict[str, str], *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    """The Workload of an object whose pods have these labels, with conditions."""
    metadata = {"name": uid, "uid": uid, "ownerReferences": [{"name": uid}]}
    spec = {"queueName": "training", "podSets": [{"template": {"metadata": {"labels": labels}}}]}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions), **status}}


OURS = pod_parts.labels("baseline", **{pod_parts.RUN_LABEL: "baseline-1"})
WAITS = {
    "type": "QuotaReserved",
    "status": "False",
    "reason": "Pending",
    "message": "1 more",
    "lastTransitionTime": "10:01",
}
RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": "10:01"}
ENDED = {"type": "Finished", "status": "True", "lastTransitionTime": "10:03"}


def test_what_waits_is_told_with_kueue_s_own_condition(api: Api, client: Any) -> None:
    """By the run's name, or the RayCluster's; not what was admitted or has ended, and nobody else's."""
    ray = pod_parts.labels("ray-head")
    of_all = [in_queue("w0", OURS, WAITS), in_queue("w1", ray, WAITS), in_queue("w2", {}, WAITS)]
    of_all += [in_queue("w3", ray, RESERVED), in_queue("w4", ray, WAITS, ENDED), in_queue("w5", ray)]
    put(api, *of_all)

    said = "waits in queue training (Pending): 1 more"
    assert {"baseline-1": said, "w1": said} == kueue.waiting(client, SERVED, NAMESPACE)


def test_workloads_that_somebody_made_by_hand_are_in_nobody_s_way(api: Api, client: Any) -> None:
    """Kueue takes one without pods, without an owner and without a queue."""
    by_hand = in_queue("w1", OURS, WAITS)
    del by_hand["metadata"]["ownerReferences"], by_hand["spec"]["queueName"]
    put(api, {"metadata": {"name": "w0"}}, by_hand)

    assert ["baseline-1"] == list(kueue.waiting(client, SERVED, NAMESPACE))
    assert {} == kueue.evictions(client, NAMESPACE)


def test_what_was_deactivated_waits_for_no_quota(api: Api, client: Any, wording: Wording) -> None:
    """Kueue leaves the condition as it was, and never admits it."""
    why = {"type": "Evicted", "status": "True", "reason": "Deactivated", "message": "The workload is deactivated"}
    found = in_queue("w", OURS, WAITS, why)
    found["spec"]["active"] = False
    put(api, found)

    wording("cluster", kueue.waiting(client, SERVED, NAMESPACE)["baseline-1"])


def test_an_eviction_is_told_of_the_time_that_it_was(api: Api, client: Any) -> None:
    """Once for each: an update tells those that were not there before it."""
    gone = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "by another",
        "lastTransitionTime": "10:02",
    }
    put(api, in_queue("w0", OURS, WAITS, gone), in_queue("w1", OURS, WAITS), in_queue("w2", {}, gone))

    ((key, text),) = kueue.evictions(client, NAMESPACE).items()
    assert "w0 10:02" == key
    assert all(part in text for part in ("baseline-1", gone["reason"], gone["message"]))


@pytest.mark.parametrize(("state", "condition"), [("Ready", RESERVED), ("Pending", ENDED)])
def test_a_check_that_keeps_the_project_waiting_is_told(
    api: Api, client: Any, wording: Wording, state: str, condition: dict[str, str]
) -> None:
    """An administrator may add checks to quota; not one that let it start, or after it ended."""
    check = {"name": "nodes", "state": "Pending", "message": "no capacity", "lastTransitionTime": "10:02"}
    found = in_queue("w", OURS, RESERVED, admissionChecks=[check])
    put(api, found)
    wording("cluster", kueue.waiting(client, SERVED, NAMESPACE)["baseline-1"])

    check["state"] = state
    found["status"]["conditions"].append(condition)
    assert {} == kueue.waiting(client, SERVED, NAMESPACE)


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


def test_a_queue_that_exists_is_no_obstacle(api: Api, client: Any) -> None:
    """Whatever its quota; nor is one that the user may not look at, or none that is asked for."""
    assert [] == problems(client)
    api.forbidden.add(QUEUES)
    assert [] == problems(client)
    api.forbidden = {"/apis/kueue.x-k8s.io"}
    assert [] == problems(client)
    del api.objects["/apis/kueue.x-k8s.io"], api.objects[f"{QUEUES}/training"]
    api.forbidden.clear()
    assert [] != problems(client)
    assert [] == problems(client, queue="")


@pytest.mark.parametrize("path", [QUEUES, "/apis/kueue.x-k8s.io"])
@pytest.mark.parametrize("is_preview", [True, False])
def test_who_may_not_read_queues_is_told_that_nobody_looked(
    api: Api, surveyed: list[str], monkeypatch: pytest.MonkeyPatch, path: str, *, is_preview: bool
) -> None:
    """At preview, at `up` and by `rwi doctor`; and let through."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: is_preview)
    api.forbidden.add(path)
    asked = existing(**IN_QUEUE)
    ExistingCluster().survey(asked)
    (told,) = surveyed
    assert [told] == [each.present for each in ExistingCluster().doctor(asked) if each.name == "queue"]
    assert path in told


def test_a_namespace_that_the_stack_made_stays_its_own(api: Api, client: Any) -> None:
    """`createNamespace false` would have an update delete it; for one that is not there yet it is the way."""
    del api.objects[f"{QUEUES}/training"]
    assert not any("createNamespace" in each for each in problems(client, createNamespace="true"))
    del api.objects[f"/api/v1/namespaces/{NAMESPACE}"]
    assert any("createNamespace false" in each for each in problems(client, createNamespace="true"))


def test_what_is_missing_is_refused(api: Api, client: Any, wording: Wording) -> None:
    """A LocalQueue, all of them, Kueue itself; each with what is there, and a line that helps."""
    api.put(f"/apis/{SERVED}", "localqueues", local_queue("another", clusterQueue="team"), NAMESPACE)
    said = []
    for path in (f"{QUEUES}/training", f"{QUEUES}/another", "/apis/kueue.x-k8s.io"):
        del api.objects[path]
        said += problems(client)

    for each in said:
        wording("cluster", each)


def test_a_queue_that_kueue_says_is_inactive_is_refused(api: Api, client: Any, wording: Wording) -> None:
    """With Kueue's own words: it is stopped, its ClusterQueue is, or there is none."""
    stopped = {"type": "Active", "status": "False", "message": "LocalQueue is stopped"}
    api.objects[f"{QUEUES}/training"]["status"]["conditions"] = [stopped]

    wording("cluster", *problems(client))


@pytest.mark.parametrize("is_preview", [True, False])
@pytest.mark.usefixtures("surveyed")
def test_a_preview_and_an_update_refuse_it(api: Api, monkeypatch: pytest.MonkeyPatch, *, is_preview: bool) -> None:
    """`rwi doctor` says the same; `allowOversubscription` does not lift it."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: is_preview)
    asked = existing(**IN_QUEUE, allowOversubscription="true")
    ExistingCluster().survey(asked)
    assert all(finding.ok for finding in ExistingCluster().doctor(asked))
    del api.objects[f"{QUEUES}/training"]

    with pytest.raises(pulumi.RunError, match="no LocalQueue training"):
        ExistingCluster().survey(asked)
    (finding,) = [each for each in ExistingCluster().doctor(asked) if not each.ok]
    assert "no LocalQueue training" in finding.fix


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
    api: Api, client: Any, job: dict[str, Any], ray: dict[str, Any], alone: list[str]
) -> None:
    """By the object itself: Kueue may delete the Workload of what has ended."""
    of_job, of_ray = job_and_ray(job, ray)
    api.objects[RAY] = of_ray

    assert alone == kueue.left_alone(client, NAMESPACE, of_job)


def test_a_ray_cluster_that_is_gone_says_nothing(api: Api, client: Any) -> None:
    """It was deleted since."""
    del api.objects[RAY]

    assert [] == kueue.left_alone(client, NAMESPACE, {**JOB, "spec": HELD})


def test_quantities_are_as_kubernetes_writes_them() -> None:
    """So that what Kueue writes again is what was declared."""
    given = {"1000m": "1", "1500m": "1500m", "0.25": "250m", "2048Mi": "2Gi", "1.5Gi": "1536Mi", "1": "1", "5000": "5k"}
    part = {"spec": [{"resources": {"limits": dict.fromkeys(["cpu"], text)}, "sizeLimit": text} for text in given]}

    made = queue.canonical(part)["spec"]

    assert list(given.values()) == [each["resources"]["limits"]["cpu"] for each in made]
    assert list(given.values()) == [each["sizeLimit"] for each in made]
