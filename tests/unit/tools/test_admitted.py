"""`make up` after an update that ended while its RayCluster waited in a queue of Kueue's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from tests.golden import Wording
from tests.unit.kube_api import Api, pod
from tests.unit.kube_api import serving as serving_kubernetes
from tools.look import admitted

NAMESPACE = "mine"
ADMITTED = {"manager": "kueue", "fieldsV1": {"f:spec": {"f:suspend": {}, "f:workerGroupSpecs": {}}}}
WAITING = {"manager": "kueue", "fieldsV1": {"f:metadata": {"f:annotations": {}}}}
"""What Kueue owns of a RayCluster that it has not admitted."""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster that the stack's kubeconfig leads to."""
    with serving_kubernetes(tmp_path) as (api, kubeconfig):
        monkeypatch.setattr(kube, "own_path", lambda _: kubeconfig)
        monkeypatch.setattr(admitted, "POLL_SECONDS", 0.02)
        yield api


def put(api: Api, owner: dict[str, Any], *, ready: int | None, head: str = "True") -> dict[str, Any]:
    """A RayCluster of two workers, of which so many are ready."""
    status = {"conditions": [{"type": "HeadPodReady", "status": head}], "readyWorkerReplicas": ready}
    cluster = {
        "metadata": {"name": ray_cluster.NAME, "managedFields": [{"manager": "pulumi"}, owner]},
        "spec": {"workerGroupSpecs": [{"replicas": 2}]},
        "status": status if ready is not None else {},
    }
    api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", cluster, NAMESPACE)
    return cluster


def put_steps(api: Api, cluster: dict[str, Any], *steps: dict[str, Any]) -> None:
    """At each question about the RayCluster the next of these becomes its status, or its spec."""
    left = iter(steps)
    answer = api.answer

    def answer_next(method: str, path: str, query: Any, change: Any = None) -> tuple[int, str]:
        if path.endswith(f"/{ray_cluster.NAME}"):
            for part, values in next(left, {}).items():
                cluster[part] = {**cluster[part], **values}
        return answer(method, path, query, change)

    api.answer = answer_next  # type: ignore[method-assign]


HEAD_READY = {"conditions": [{"type": "HeadPodReady", "status": "True"}]}


def test_what_is_admitted_is_waited_for(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Until its head and all its workers are ready: a refresh before that would change nothing."""
    counts = [{"status": {"readyWorkerReplicas": number}} for number in (1, 2)]
    put_steps(api, put(api, ADMITTED, ready=None), {}, *counts, {"status": HEAD_READY}, {})

    assert admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)

    asked = [path for path in api.asked if path.endswith(f"/{ray_cluster.NAME}")]
    assert 4 == len(asked)
    assert 1 == capsys.readouterr().err.count("Kueue has admitted")


def test_what_waits_in_the_queue_is_left_alone(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    """Also again, when Kueue has evicted it; as is what is gone, and what can't be asked."""
    put(api, WAITING, ready=None)
    assert not admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)
    put(api, ADMITTED, ready=None)["spec"]["suspend"] = True
    assert not admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)
    api.objects.clear()
    assert not admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)
    api.expired = True
    assert not admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)
    assert "" == capsys.readouterr().err


def test_one_that_is_evicted_meanwhile_is_waited_for_no_longer(api: Api) -> None:
    """It is in the queue again."""
    put_steps(api, put(api, ADMITTED, ready=None), {}, {"spec": {"suspend": True}})

    assert not admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)


def test_an_answer_that_fails_ends_no_wait(api: Api) -> None:
    """The API server answered before."""
    cluster = put(api, ADMITTED, ready=2, head="False")
    put_steps(api, cluster, {}, {}, {"status": HEAD_READY})
    answer = api.answer
    failing = iter([False, True])

    def answer_but_once(method: str, path: str, query: Any, change: Any = None) -> tuple[int, str]:
        is_failing = path.endswith(f"/{ray_cluster.NAME}") and next(failing, False)
        return (503, "{}") if is_failing else answer(method, path, query, change)

    api.answer = answer_but_once  # type: ignore[method-assign]

    assert admitted.wait_until_ready("ci", NAMESPACE, "ci", seconds=20)


def test_pods_that_do_not_come_are_told(api: Api, capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    """The head, too, each reason once: what the update said stands."""
    put(api, ADMITTED, ready=0, head="False")
    message = "0/2 nodes are available: 2 Insufficient cpu. No preemption"
    for name, labels in (("head", HEAD_LABELS), ("worker-1", WORKER_LABELS)):
        waits = pod(name, "Pending", dict(labels))
        waits["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": f"{name}: {message}"}]
        api.put("/api/v1", "pods", waits, NAMESPACE)

    assert not admitted.wait_until_ready("ci", NAMESPACE, "before", seconds=0.5)
    wording("stack", capsys.readouterr().err)
