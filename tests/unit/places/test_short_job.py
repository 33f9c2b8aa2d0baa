"""A Job that looks at something from inside a cluster: what it printed, or one sentence of why there is nothing."""

from collections.abc import Callable
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
from tests.unit.places.clock import Clock

POD = pod_of(Placement(image="registry.example.com/mine:1"), {})
SEEN = "image-check-seen"


Run = Callable[..., str]


@pytest.fixture
def run(api: Api, client: Any, clock: Clock) -> Run:
    """The Job in a cluster where its pod has a state, and a log; afterwards there is no Job."""
    assert not clock.now

    def job(state: dict[str, Any] | None, log: str = "", forbidden: str = "", **status: Any) -> str:
        def started(job: dict[str, Any]) -> None:
            if state is not None:
                there = pod(SEEN, "Pending", {"job-name": job["metadata"]["name"]}, state=state)
                there["status"] |= status
                api.put("/api/v1", "pods", there, NAMESPACE)

        api.on_create = started
        api.texts[f"/api/v1/namespaces/{NAMESPACE}/pods/{SEEN}/log"] = log
        if forbidden:
            # What the Job controller says where it may make no pod
            event = {"metadata": {"name": "refused", "labels": {}}, "reason": "FailedCreate", "message": forbidden}
            api.put("/api/v1", "events", event, NAMESPACE)
        try:
            return short_job.run(client, NAMESPACE, "image-check", POD, 90)
        finally:
            assert not [name for name in api.objects if "/jobs/" in name]
            assert "DELETE" in api.asked[-1]

    return job


def terminated(code: int, **more: str) -> dict[str, Any]:
    """A container that has ended."""
    return {"terminated": {"exitCode": code, **more}}


def waiting(reason: str, message: str) -> dict[str, Any]:
    """A container that does not start."""
    return {"waiting": {"reason": reason, "message": message}}


def test_its_log_is_what_it_gives(run: Run) -> None:
    """Whole."""
    assert run(terminated(0), "one\ntwo\n") == "one\ntwo\n"


def test_pods_of_others_are_not_looked_at(run: Run, api: Api) -> None:
    """One that failed beside it, in the same namespace, is no answer."""
    api.put("/api/v1", "pods", pod("another", "Failed", {"job-name": "another"}, state=terminated(1)), NAMESPACE)

    assert "one" == run(terminated(0), "one")


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
def test_what_went_wrong_is_one_sentence(run: Run, state: dict[str, Any], said: str) -> None:
    """At once where it is known."""
    with pytest.raises(ShortJobError, match=said) as caught:
        run(state, "why\n")
    assert caught.value.log == ("why" if state.get("terminated", {}).get("exitCode") in (1, 137) else "")
    assert caught.value.pulled == ("pulled" not in said)


def test_a_pod_that_no_node_takes_is_said(run: Run, wording: Wording) -> None:
    """With the scheduler's reason."""
    unplaced = [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes: Insufficient cpu"}]
    with pytest.raises(ShortJobError) as error:
        run(waiting("ContainerCreating", ""), conditions=unplaced)
    wording("cluster", str(error.value))


def test_a_pod_that_is_not_admitted_is_said(run: Run, wording: Wording) -> None:
    """By a quota or a policy: there is no pod that could say it."""
    with pytest.raises(ShortJobError) as error:
        run(None, forbidden="exceeded quota")
    wording("cluster", str(error.value))


def test_a_cluster_that_does_not_answer_is_said(tmp_path: Path) -> None:
    """As everywhere."""
    with serving(tmp_path) as (_, kubeconfig):
        pass
    with pytest.raises(KubeError, match="does not answer"):
        short_job.run(kube.connect(kubeconfig), NAMESPACE, "image-check", POD, 1)
