"""The wait for Ray's autoscaler, after which the next arm has its CPUs."""

from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from infra.places.cluster.api import kube, ray_scale
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.places.cluster.ray_workers import RayWorkersProvider
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, serving

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Api, str]]:
    """A Ray cluster of a head and two workers."""
    with serving(tmp_path) as (api, kubeconfig):
        api.put("/api/v1", "pods", {"metadata": {"name": "head", "labels": HEAD_LABELS}}, NAMESPACE)
        for name in ("worker-1", "worker-2"):
            api.put("/api/v1", "pods", {"metadata": {"name": name, "labels": WORKER_LABELS}}, NAMESPACE)
        yield api, kubeconfig


def props(kubeconfig: str) -> dict[str, Any]:
    """What the resource after a Ray run's Job has."""
    return {
        "name": "ray-1", "run": "a b", "namespace": NAMESPACE, "kubeconfig": kubeconfig, "after": "uid",
        "workers": 0, "idleSeconds": 30.0,
    }  # fmt: skip


def test_the_next_arm_waits_until_they_are_gone(cluster: tuple[Api, str]) -> None:
    """Nothing is asked of the cluster but its pods, and the head stays."""
    api, kubeconfig = cluster
    leave = [Timer(each * 0.5, lambda name=each: api.objects.pop(f"{PODS}/worker-{name}")) for each in (1, 2)]
    for timer in leave:
        timer.start()

    RayWorkersProvider().create(props(kubeconfig))

    assert [f"{PODS}/head"] == [path for path in api.objects if path.startswith(PODS)]
    assert {f"GET {PODS}"} == {asked.partition("?")[0] for asked in api.asked}


def test_workers_that_stay_are_named(
    cluster: tuple[Api, str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """After the time that Ray's autoscaler needs, and some more."""
    monkeypatch.setattr(ray_scale, "DOWN_SECONDS", 0.5)

    with pytest.raises(ScaleError) as refused:
        ray_scale.wait_until_gone(kube.connect(cluster[1]), NAMESPACE, 0)

    wording("platform", str(refused.value))
