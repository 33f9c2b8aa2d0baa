"""A run that an interrupted update left is ended before the next begins."""

from pathlib import Path

import pytest

from infra.places.cluster.api import kube, leftover_jobs
from infra.places.cluster.api.kube import KubeError
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, serving


def with_deadline(api: Api) -> set[str]:
    """The Jobs that were given one. All are still there: Pulumi may know them."""
    assert 5 == len(api.objects)
    return {item["metadata"]["name"] for item in api.objects.values() if "activeDeadlineSeconds" in item["spec"]}


def test_only_runs_that_have_not_ended_are_ended(tmp_path: Path) -> None:
    """What has ended is a result that may be in the state; other Jobs are not ours."""
    with serving(tmp_path) as (api, kubeconfig):
        for one in (
            job("done", "baseline-1", "Complete"),
            job("failed", "native-1", "Failed"),
            job("runs", "ray-1", active=1),
            job("waits", "ray-2"),
            job("other", "", active=1),
        ):
            api.put("/apis/batch/v1", "jobs", one, NAMESPACE)
        ended = leftover_jobs.end_unfinished(kube.connect(kubeconfig), NAMESPACE)

    assert ["runs", "waits"] == ended
    assert {"runs", "waits"} == with_deadline(api)


def test_its_pods_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    """They have seconds to end, and use their cores meanwhile; one that does not end is an error."""
    monkeypatch.setattr(leftover_jobs, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(leftover_jobs, "GONE_SECONDS", 0.1)
    with serving(tmp_path) as (api, kubeconfig):
        api.on_patch = lambda _: None
        api.put("/apis/batch/v1", "jobs", job("stays", "ray-1", active=1), NAMESPACE)
        with pytest.raises(KubeError, match="stays") as error:
            leftover_jobs.end_unfinished(kube.connect(kubeconfig), NAMESPACE)
        wording("cluster", str(error.value))
