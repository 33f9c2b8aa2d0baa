"""A run that an interrupted update left is ended before the next begins."""

from typing import Any

import pytest

from infra.places.cluster.api import leftover_jobs
from infra.places.cluster.api.kube import KubeError
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job
from tests.unit.places.clock import Clock


def test_only_runs_that_have_not_ended_are_ended(api: Api, client: Any) -> None:
    """What has ended is a result that may be in the state; other Jobs are not ours. All stay: Pulumi may know them."""
    for one in (
        job("done", "baseline-1", "Complete"),
        job("failed", "native-1", "Failed"),
        job("runs", "ray-1", active=1),
        job("waits", "ray-2"),
        job("other", "", active=1),
    ):
        api.put("/apis/batch/v1", "jobs", one, NAMESPACE)

    assert ["runs", "waits"] == leftover_jobs.end_unfinished(client, NAMESPACE)
    has_deadline = {item["metadata"]["name"]: "activeDeadlineSeconds" in item["spec"] for item in api.objects.values()}
    assert {"done": False, "failed": False, "runs": True, "waits": True, "other": False} == has_deadline


def test_its_pods_are_waited_for(api: Api, client: Any, clock: Clock, wording: Wording) -> None:
    """They have seconds to end, and use their cores meanwhile; one that does not end is an error."""
    api.on_patch = lambda _: None
    api.put("/apis/batch/v1", "jobs", job("stays", "ray-1", active=1), NAMESPACE)

    with pytest.raises(KubeError, match="stays") as error:
        leftover_jobs.end_unfinished(client, NAMESPACE)

    assert leftover_jobs.GONE_SECONDS <= clock.now < 2 * leftover_jobs.GONE_SECONDS
    wording("cluster", str(error.value))
