"""Quotas and limit ranges of the namespace, before the API server refuses the pods."""

from typing import Any

import pytest

from infra.places.cluster import namespace_limits
from infra.settings.problem import Problem
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api
from tests.unit.settings_machine import existing

WANTED = {
    "workers": "3",
    "workerCpus": "2",
    "workerMemory": "4Gi",
    "operator": "existing",
}
NEEDED = {"pods": 7, "requests.cpu": 13, "limits.memory": 26 * 2**30}
"""Of the native arm: Ray's head, its workers, and as many pods."""


def found(client: Any, **values: str) -> list[Problem]:
    """What is found for a stack with these settings."""
    return list(namespace_limits.problems(client, existing(**{**WANTED, **values})))


def put_quota(api: Api, **spec: Any) -> None:
    """A quota of the namespace."""
    api.put("/api/v1", "resourcequotas", {"metadata": {"name": "small"}, "spec": spec}, NAMESPACE)


def put_range(api: Api, **limits: Any) -> None:
    """A limit range of the namespace."""
    item = {"metadata": {"name": "range"}, "spec": {"limits": [{"type": "Container", **limits}]}}
    api.put("/api/v1", "limitranges", item, NAMESPACE)


@pytest.mark.parametrize("resource", NEEDED)
def test_a_quota_that_never_holds_all_is_said_with_what_fits(
    resource: str, api: Api, client: Any, wording: Wording
) -> None:
    """By arms that can be left out, and by fewer workers; the whole amount is enough."""
    put_quota(api, hard={resource: str(NEEDED[resource])})
    assert [] == found(client)
    put_quota(api, hard={resource: str(NEEDED[resource] - 1)})
    (problem,) = found(client)

    assert problem.liftable
    assert {"pulumi config set nativeArm false", "pulumi config set workers 2"} < set(problem.fixes)
    wording("cluster", str(problem))


def test_the_operator_is_in_the_quota_of_its_namespace_alone(api: Api, client: Any) -> None:
    """One that a platform installs is elsewhere."""
    put_quota(api, hard={"pods": str(NEEDED["pods"])})

    assert [] == found(client)
    (problem,) = found(client, operator="install")
    assert "pulumi config set workers 2" in problem.fixes


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({"max": {"cpu": "1900m"}}, 1),
        ({"max": {"memory": "3Gi"}}, 1),
        ({"min": {"cpu": "500m"}}, 1),
        ({"max": {"cpu": "2", "memory": "4Gi"}, "min": {"cpu": "100m", "memory": "512Mi"}}, 0),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, 0),
    ],
)
def test_a_limit_range_that_refuses_a_pod_is_said(
    limits: dict[str, Any], refused: int, api: Api, client: Any, wording: Wording
) -> None:
    """A worker, or what submits a run, which is smaller than all others."""
    put_range(api, **limits)
    problems = found(client)

    assert refused == len(problems)
    for problem in problems:
        wording("cluster", str(problem))


def test_who_may_not_read_them_is_let_through(api: Api, client: Any) -> None:
    """And what holds for some pods alone is not looked at."""
    put_quota(api, hard={"pods": "1"}, scopes=["BestEffort"])
    assert [] == found(client)
    put_quota(api, hard={"pods": "1"})
    api.forbidden |= {f"/api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("resourcequotas", "limitranges")}
    assert [] == found(client)
