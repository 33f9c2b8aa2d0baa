"""Why an update of a cluster failed, from the pods that it left: what Pulumi does not show."""

import re
from pathlib import Path
from typing import Any

import pytest

from cli.look import cluster, failure_reason
from cli.look.status_view import phase
from infra.places.cluster.api import kube
from infra.places.cluster.job_result import INDEX_LABEL
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL, RUN_LABEL, labels
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, pod, serving


def of_run(name: str, component: str = "baseline", index: str = "", **more: Any) -> dict[str, Any]:
    """A pod of a run."""
    own = labels(component, **{RUN_LABEL: name}) | ({INDEX_LABEL: index} if index else {})
    found = pod(f"{name}-x{index}", "Failed", own, state=more.pop("state", {}))
    found["status"] |= more
    return found


def ended(code: int, at: str = "2025-03-01T12:00:00Z", reason: str = "Error", message: str = "") -> dict[str, Any]:
    """A container that has ended; `message`: the end of its log."""
    return {"terminated": {"exitCode": code, "finishedAt": at, "reason": reason, "message": message}}


TOO_SLOW = "Exception: The current node timed out during startup. This could happen because some of the raylet failed"


READ_ONLY = "OSError: [Errno 30] Read-only file system: '/opt/weights.pt'\nFAILED"
EVICTED = 'Usage of EmptyDir volume "tmp" exceeds the limit "200Mi". '


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            of_run("baseline-1", state=ended(1, message=READ_ONLY)),
            "/opt/weights.pt, and a pod's files are read-only",
        ),
        (
            of_run("ray-1", reason="Evicted", message=EVICTED),
            "scratch allows (200Mi):  pulumi config set scratch 400Mi",
        ),
        (of_run("ray-1", reason="Evicted", message="The node was low on resource"), "the node ended its pod: The node"),
        (of_run("ray-1", state=ended(137, reason="OOMKilled")), "(OOMKilled): a larger workerMemory"),
        (of_run("ray-1", "ray-head", state=ended(137, reason="OOMKilled")), "(OOMKilled): a larger headMemory"),
        (of_run("ray-1", state=ended(3)), "ray-1: it ended, with exit code 3"),
        (
            of_run("worker", state=ended(1, message=TOO_SLOW)),
            "within the 30 s that it gives itself: a larger workerCpus",
        ),
        (of_run("head", "ray-head", state=ended(1, message=TOO_SLOW)), "a larger headCpus"),
        (
            of_run("ray-1", state={"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            "its image can't be pulled: not found",
        ),
        (
            of_run("ray-1", conditions=[{"type": "PodScheduled", "status": "False", "message": "Insufficient cpu"}]),
            "no node takes its pod: Insufficient cpu",
        ),
    ],
)
def test_what_happened_to_a_pod_is_one_sentence(found: dict[str, Any], said: str) -> None:
    """With the line that mends it, where one does."""
    (text,) = failure_reason.reasons([found])
    assert said in text


def test_a_container_that_runs_before_the_pod_s_own_may_wait_for_the_image(wording: Wording) -> None:
    """Of the pod's own it is said then that it has not begun."""
    pod = of_run("ray-1", state={"waiting": {"reason": "PodInitializing"}})
    missing = {"name": "modules", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    pod["status"]["initContainerStatuses"] = [missing]

    (reason,) = failure_reason.reasons([pod])
    wording("why", reason)
    assert "Pending (ErrImagePull, PodInitializing)" == phase({**pod, "status": {**pod["status"], "phase": "Pending"}})


def test_of_the_ranks_of_a_run_the_first_that_failed_is_named(wording: Wording) -> None:
    """The others are ended with it, and say nothing of why."""
    ranks = [
        of_run("native-1", "native", "0", state=ended(143, "2025-03-01T12:00:09Z")),
        of_run("native-1", "native", "1", state=ended(3, "2025-03-01T12:00:05Z")),
    ]
    (reason,) = failure_reason.reasons(ranks)
    assert re.search(r"^native-1: .*\b1\b.*\b3$", reason)
    wording("why", reason)


def test_a_pod_of_ray_s_that_was_started_again_is_named(wording: Wording) -> None:
    """It runs, and its work is lost."""
    again = pod("worker-x", labels={PROJECT_LABEL: PROJECT})
    again["status"]["containerStatuses"][0]["lastState"] = ended(137, reason="OOMKilled")
    (reason,) = failure_reason.reasons([again])
    assert reason.startswith("worker-x: ")
    assert "workerMemory" in reason
    wording("why", reason)


def test_of_a_container_that_had_ended_before_nothing_is_said(wording: Wording) -> None:
    """A node that was started again ended all of Ray's, and an update after it fails for something else."""
    again = pod("worker-x", labels={PROJECT_LABEL: PROJECT})
    last = again["status"]["containerStatuses"][0]
    last["lastState"] = {"terminated": ended(255)["terminated"] | {"containerID": "containerd://1"}}
    assert not failure_reason.reasons([again], {"containerd://1"})
    (reason,) = failure_reason.reasons([again], {"containerd://0"})
    assert "255" in reason
    wording("why", reason)


def test_what_went_well_is_nothing_to_tell() -> None:
    """Nor what still runs."""
    assert (
        failure_reason.reasons([of_run("baseline-1", state=ended(0)), pod("head", labels={PROJECT_LABEL: PROJECT})])
        == []
    )


def test_it_is_asked_of_the_stack_s_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What had ended before an update says nothing of it; a cluster that does not answer tells nothing."""
    with serving(tmp_path) as (api, kubeconfig):
        api.put("/api/v1", "pods", of_run("baseline-1", state=ended(3)), NAMESPACE)
        again = pod("worker-x", labels={PROJECT_LABEL: PROJECT})
        last = {"terminated": ended(255)["terminated"] | {"containerID": "containerd://1"}}
        again["status"]["containerStatuses"][0]["lastState"] = last
        api.put("/api/v1", "pods", again, NAMESPACE)
        monkeypatch.setattr(cluster, "ROOT", tmp_path)
        monkeypatch.setattr(kube, "own_path", lambda _: kubeconfig)
        failure_reason.tell("ci", {}, ())
        assert "baseline-1: " in "".join(capsys.readouterr())
        before = failure_reason.ended("ci", {})
        api.put("/api/v1", "pods", of_run("native-1", state=ended(4)), NAMESPACE)
        failure_reason.tell("ci", {}, before)
        (line,) = "".join(capsys.readouterr()).splitlines()
        assert re.search(r"^native-1: .*\b4$", line)
    assert not failure_reason.ended("ci", {})
    failure_reason.tell("ci", {}, ())
    failure_reason.tell("local", {}, ())
    assert "".join(capsys.readouterr()) == ""
