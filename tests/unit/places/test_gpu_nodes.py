"""GPUs of a cluster that exists: what is refused before anything is made in it."""

from typing import Any

import pytest

from infra.places.kubernetes import inspection
from infra.settings.problem import Problem
from tests.golden import Wording
from tests.unit.kube_api import Api, node
from tests.unit.settings_machine import existing

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
WITH_GPUS = {"workload": "script", "script": "examples/torch_ddp.py", "workerGpus": "1"}


def gpu_node(name: str, gpus: int, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A node of 16 CPUs with so many GPUs."""
    made = node(name, "16", "64Gi", **spec)
    made["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)
    made["metadata"]["labels"] |= labels or {}
    return made


@pytest.fixture(autouse=True)
def _without_gpus(api: Api) -> None:
    api.put("/api/v1", "nodes", node("cpu", "8", "16Gi"))


def found(client: Any, **values: str) -> list[Problem]:
    """What stands in the way of a stack with GPUs."""
    return inspection.problems(client, existing(**{**WITH_GPUS, **values}))


@pytest.mark.parametrize(
    ("gpus", "values", "fits"),
    [
        # Those of the Ray cluster, and of the arm that runs beside it; and a node without, for the head
        (4, {}, True),
        (4, {"workers": "3"}, False),
        # Of workers that exist while Ray runs each arm has them in turn; and Ray's own still have to fit
        (2, {}, False),
        (2, {"rayWorkers": "per-run"}, True),
        (2, {"rayWorkers": "autoscaled"}, True),
        (2, {"rayWorkers": "per-run", "workers": "3"}, False),
    ],
)
def test_gpus_are_enough_for_who_has_them_at_a_time(
    gpus: int, values: dict[str, str], fits: bool, *, api: Api, client: Any
) -> None:
    """Two workers with one each need four, or two where Ray's own are gone meanwhile."""
    api.put("/api/v1", "nodes", gpu_node("gpu", gpus, taints=[TAINT]))

    assert fits == ([] == found(client, **values))


def test_more_gpus_than_there_are_is_refused_with_the_numbers(api: Api, client: Any, wording: Wording) -> None:
    """Of each arm, and no permission lifts it: a pod would wait for ever."""
    for name, gpus in (("one", 2), ("two", 1)):
        api.put("/api/v1", "nodes", gpu_node(name, gpus, taints=[TAINT]))

    (problem,) = found(client)

    assert not problem.liftable
    assert "pulumi config set workers 1" in problem.fixes
    assert [] == found(client, workers="1")
    wording("cluster", str(problem))


def test_a_cluster_without_gpus_offers_none(api: Api, client: Any) -> None:
    """Nor does one whose GPU node is tainted otherwise."""
    (problem,) = found(client)
    api.put("/api/v1", "nodes", gpu_node("gpu", 4, taints=[TAINT | {"key": "team"}]))

    assert str(problem) == str(found(client)[0])
    assert "offer 0" in problem.what
    assert [] == found(client, gpuTolerations="team=present:NoSchedule")


def test_a_gpu_node_that_nothing_keeps_the_head_off_is_refused(api: Api, client: Any, wording: Wording) -> None:
    """A label or a taint tells it from the others; permission makes it a warning."""
    api.put("/api/v1", "nodes", gpu_node("gpu", 4, labels={"accelerator": "h100"}))

    (problem,) = found(client)

    assert problem.liftable
    assert [] == found(client, gpuNodeSelector="accelerator=h100")
    assert [] != found(client, gpuNodeSelector="accelerator=a100")
    wording("cluster", str(problem))


def test_ray_s_head_needs_a_node_without_gpus(api: Api, client: Any) -> None:
    """The room beside the GPUs does not count for it."""
    api.put("/api/v1", "nodes", node("cpu", "1", "2Gi"))
    api.put("/api/v1", "nodes", gpu_node("gpu", 4, taints=[TAINT]))

    (problem,) = found(client)

    assert problem.liftable


def test_without_gpus_a_stack_sees_nodes_as_before(api: Api, client: Any) -> None:
    """GPU nodes are nodes, and what they offer is not looked at."""
    api.put("/api/v1", "nodes", gpu_node("gpu", 4))

    assert [] == found(client, workerGpus="", script="", workload="cnn", workers="6")
