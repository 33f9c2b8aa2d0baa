"""A Job that looks at something from inside a cluster: what it printed, or one sentence of why there is nothing."""

from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube, short_job
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.image_check import pod_of
from infra.places.cluster.manifests.pod_parts import Placement
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, pod, serving

POD = pod_of(Placement(image="registry.example.com/mine:1"), {})
SEEN = "image-check-seen"


def run(tmp_path: Path, state: dict[str, Any] | None, log: str = "", forbidden: str = "", **status: Any) -> str:
    """The Job in a cluster where its pod has this state, and this log; afterwards there is no Job."""

    def started(job: dict[str, Any]) -> None:
        labels = {"job-name": job["metadata"]["name"]}
        if state is not None:
            there = pod(SEEN, "Pending", labels, state=state)
            there["status"] |= status
            api.put("/api/v1", "pods", there, NAMESPACE)

    with serving(tmp_path) as (api, kubeconfig):
        api.on_create = started
        api.texts[f"/api/v1/namespaces/{NAMESPACE}/pods/{SEEN}/log"] = log
        if forbidden:
            api.put("/api/v1", "events", event(forbidden), NAMESPACE)
        try:
            return short_job.run(kube.connect(kubeconfig), NAMESPACE, "image-check", POD, 0.5)
        finally:
            assert not [name for name in api.objects if "/jobs/" in name]
            assert not _sleeps(api)


def _sleeps(api: Api) -> bool:
    return "DELETE" not in api.asked[-1]


def event(message: str) -> dict[str, Any]:
    """What the Job controller says where it may make no pod."""
    return {"metadata": {"name": "refused", "labels": {}}, "reason": "FailedCreate", "message": message}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_job, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(short_job, "PLACE_SECONDS", 0.1)


def terminated(code: int, **more: str) -> dict[str, Any]:
    """A container that has ended."""
    return {"terminated": {"exitCode": code, **more}}


def waiting(reason: str, message: str) -> dict[str, Any]:
    """A container that does not start."""
    return {"waiting": {"reason": reason, "message": message}}


def test_its_log_is_what_it_gives(tmp_path: Path) -> None:
    """Whole."""
    assert run(tmp_path, terminated(0), "one\ntwo\n") == "one\ntwo\n"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (terminated(1), "it ended with exit code 1"),
        (terminated(137, reason="OOMKilled"), "more memory than its pod has"),
        (terminated(128, reason="StartError", message='exec: "python": not found'), 'exec: "python": not found'),
        (waiting("CreateContainerError", "no command"), "can't be started: no command"),
        (waiting("ImagePullBackOff", "Back-off pulling"), "can't be pulled: Back-off"),
        (waiting("InvalidImageName", "no name"), "can't be pulled: no name"),
        (waiting("ContainerCreating", ""), "did not end in time"),
    ],
)
def test_what_went_wrong_is_one_sentence(tmp_path: Path, state: dict[str, Any], said: str) -> None:
    """At once where it is known."""
    with pytest.raises(ShortJobError, match=said) as caught:
        run(tmp_path, state, "why\n")
    assert caught.value.log == ("why" if state.get("terminated", {}).get("exitCode") in (1, 137) else "")
    assert caught.value.pulled == ("pulled" not in said)


def test_a_pod_that_no_node_takes_is_said(tmp_path: Path, wording: Wording) -> None:
    """With the scheduler's reason."""
    unplaced = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes: Insufficient cpu"}]
    with pytest.raises(ShortJobError) as error:
        run(tmp_path, waiting("ContainerCreating", ""), conditions=unplaced)
    wording("cluster", str(error.value))


def test_a_pod_that_is_not_admitted_is_said(tmp_path: Path, wording: Wording) -> None:
    """By a quota or a policy: there is no pod that could say it."""
    with pytest.raises(ShortJobError) as error:
        run(tmp_path, None, forbidden="exceeded quota")
    wording("cluster", str(error.value))


def test_a_cluster_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """As everywhere."""
    with serving(tmp_path) as (_, kubeconfig):
        pass
    with pytest.raises(KubeError, match="does not answer"):
        short_job.run(kube.connect(kubeconfig), NAMESPACE, "image-check", POD, 1)
