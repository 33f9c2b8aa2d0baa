"""Ray's workers that exist only while Ray runs, with KubeRay's own operator: asked for, taken away, and their time."""

import pytest

from infra.places.cluster.api import kube, ray_scale
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.manifests import ray_cluster
from tests.golden import Wording
from tests.limits import wait_for
from tests.platform.cluster import GPU_NODES, NODE_GPUS, Cluster, settings

PULL_SECONDS = 3


@pytest.fixture
def idle(cluster: Cluster) -> Cluster:
    """A namespace whose RayCluster has as many workers as there are GPUs, and none of them yet."""
    of_stack = settings(GPU_NODES * NODE_GPUS, pull=f"{PULL_SECONDS}s", workerGpus="1", rayWorkers="per-run")
    cluster.make_ray_cluster(ray_cluster.spec(of_stack))
    wait_for(lambda: any(each["type"] == "HeadPodReady" and each["status"] == "True"
                      for each in cluster.ray_status().get("conditions", ())))  # fmt: skip
    return cluster


def owners(cluster: Cluster) -> set[str]:
    """Who owns a field of the RayCluster's spec."""
    found = kube.get(cluster.api, cluster.path("ray.io/v1/rayclusters", ray_cluster.NAME))
    return {each["manager"] for each in found["metadata"]["managedFields"] if "f:spec" in each["fieldsV1"]}


def test_they_come_and_go_twice(idle: Cluster) -> None:
    """An image of seconds is in that phase; after them nothing of theirs is left, and nobody owns their number."""
    before = owners(idle)
    for _ in range(2):
        phases = ray_scale.up(idle.api, idle.namespace, "ray-1", 2)

        assert [*ray_scale.PHASES] == [*phases]
        assert phases["image"] > PULL_SECONDS - 1
        assert phases["image"] > sum(phases.values()) / 2
        assert 2 == len(idle.workers())
        assert "ray-1" == ray_scale.marked_for(idle.api, idle.namespace)

        ray_scale.down(idle.api, idle.namespace, ended=True)

        assert [] == idle.workers()
        assert "" == ray_scale.marked_for(idle.api, idle.namespace)
        assert owners(idle) <= before


def test_workers_that_find_no_node_are_not_asked_for_longer(idle: Cluster, wording: Wording) -> None:
    """The scheduler's reason is in the message, and the run stays marked."""
    everything = GPU_NODES * NODE_GPUS
    holder = settings(1).placement
    _hold_a_gpu(idle, holder.image)

    with pytest.raises(ScaleError) as refused:
        ray_scale.up(idle.api, idle.namespace, "ray-1", everything, seconds=PULL_SECONDS + 7)

    wording("platform", str(refused.value))
    wait_for(lambda: not idle.workers())
    assert "ray-1" == ray_scale.marked_for(idle.api, idle.namespace)


def test_what_an_interrupted_run_left_is_taken_away(idle: Cluster) -> None:
    """Its mark stays, so that the next update asks for them again."""
    ray_scale.up(idle.api, idle.namespace, "ray-2", 1)

    assert "ray-2" == ray_scale.take_away_left(idle.api, idle.namespace)
    assert [] == idle.workers()
    assert "" == ray_scale.take_away_left(idle.api, idle.namespace)
    assert "ray-2" == ray_scale.marked_for(idle.api, idle.namespace)


def _hold_a_gpu(cluster: Cluster, image: str) -> None:
    """Let somebody else's pod have one of the GPUs."""
    resources = {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "metadata": {"name": "holder"},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": image, "resources": resources, "securityContext": strict}],
        },
    }
    kube.create(cluster.api, cluster.path("v1/pods"), pod)
    wait_for(
        lambda: any(each["metadata"]["name"] == "holder" and each["spec"].get("nodeName") for each in cluster.pods())
    )
