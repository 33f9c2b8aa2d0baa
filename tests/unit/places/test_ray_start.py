"""What Ray's cluster took to start: read from the RayCluster after a run, kept with its result, and said."""

from dataclasses import replace
from typing import Any

from compare.comparison import compare
from infra.places.cluster import job_result
from tests.unit.kube_api import NAMESPACE, Api
from tests.unit.results import make_context, make_result, make_runs, replaced
from training.contract.result import RayHead, TrainingResult

HEAD = RayHead(pod="head", container_cpu=[[0.0, 0.0], [1.0, 1.0]])
FOUND = replace(make_result("ray"), ray_head=HEAD)


def raycluster(**condition: str) -> dict[str, Any]:
    """A RayCluster with the condition that all its pods were ready."""
    ready = {"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": "2025-03-01T12:01:35Z"}
    other = {"type": "HeadPodReady", "status": "True", "lastTransitionTime": "2025-03-01T14:00:00Z"}
    metadata = {"name": "ray-training-cluster", "creationTimestamp": "2025-03-01T12:00:00Z"}
    return {"metadata": metadata, "status": {"conditions": [other, ready | condition]}}


def with_start(kubeconfig: str) -> TrainingResult:
    """The result of a Ray run after its cluster was asked."""
    return job_result.with_cluster_start(FOUND, kubeconfig, NAMESPACE)


def test_the_start_is_from_creation_until_all_pods_were_ready_first(api: Api, kubeconfig: str) -> None:
    """Not a head's last restart; one request, and only for a run that Ray made."""
    api.put("/apis/ray.io/v1", "rayclusters", raycluster(), NAMESPACE)
    head = with_start(kubeconfig).ray_head

    assert head is not None
    assert 95.0 == head.cluster_start_seconds
    assert [f"GET /apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/ray-training-cluster"] == api.asked
    assert make_result("native") == job_result.with_cluster_start(make_result("native"), kubeconfig, NAMESPACE)
    assert 1 == len(api.asked)


def test_a_cluster_that_does_not_say_it_fails_no_run(api: Api, kubeconfig: str) -> None:
    """Null with its reason: a run of an hour is not lost for a number beside it."""
    for condition in (None, raycluster(status="False")):
        if condition:
            api.put("/apis/ray.io/v1", "rayclusters", condition, NAMESPACE)
        found = with_start(kubeconfig)

        assert found.ray_head == HEAD
        assert found.reasons["rayClusterStartSeconds"]


def test_it_stands_beside_the_end_to_end_times() -> None:
    """As a measure of Ray's arm and in the verdict, in no ratio; null with its reason on this machine."""
    runs = make_runs()
    started = [
        replaced(run, ray_head=replace(HEAD, cluster_start_seconds=95.0)) if run.arm == "ray" else run for run in runs
    ]
    here, there = compare(runs, make_context()), compare(started, make_context())

    assert 95.0 == there.arms["ray"].median("rayClusterStartSeconds")
    assert "95 s" in there.verdict
    assert here.ratios == there.ratios
    assert here.arms["ray"].measures["rayClusterStartSeconds"] is None
    assert here.reasons["ray.rayClusterStartSeconds"]
    assert "95 s" not in here.verdict
