"""A Job's log becomes a run's folder and a summary in the state, once."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pulumi.output import Unknown

from infra.places.cluster import job_result
from infra.places.cluster.api import kueue
from infra.places.cluster.api.ray_api import ForwardedJobs
from infra.places.cluster.job_result import JobResultProvider, NoResultError
from infra.places.cluster.manifests import ray_cluster
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api
from tests.unit.results import make_result
from training.contract.arms import ARMS
from training.contract.recipe import texts
from training.launch.pod import log_result
from training.launch.ray.other_jobs import mark
from training.workloads.cnn.recipe import CnnRecipe

RESULT = make_result("ray", 1, CnnRecipe())
LOG = f"epoch 1/3\n{log_result.MARKER}\n{json.dumps(RESULT.to_dict())}\n"
UNKNOWN = Unknown()  # type: ignore[no-untyped-call]
PROPS: dict[str, Any] = {
    "uid": "1",
    "jobUrn": "urn:pulumi:a::b::kubernetes:batch/v1:Job::ray-1",
    "stack": "minikube",
    "name": "ray-1",
    "arm": "ray",
    "recipe": texts(ARMS["ray"].settings(CnnRecipe())),
    "indexed": False,
    "namespace": "ray-system",
    "kubeconfig": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose cluster has the log."""
    monkeypatch.setattr(job_result, "PROJECT", tmp_path)
    monkeypatch.setattr(job_result, "_read_log", lambda _: LOG)
    return tmp_path


def test_a_run_s_folder_is_as_on_local(project: Path) -> None:
    """Whoever reads results knows one layout."""
    created = JobResultProvider().create(PROPS)

    folder = project / created.id
    assert {"result.json", "log.txt"} == {path.name for path in folder.iterdir()}
    assert project / "runs" / "minikube" == folder.parent
    assert "epoch 1/3\n" == (folder / "log.txt").read_text()
    assert RESULT.scores["testAccuracy"] == json.loads((created.outs or {})["result"])["scores"]["testAccuracy"]


def test_a_log_without_a_result_says_how_to_run_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one command, and where the log is kept."""
    monkeypatch.setattr(job_result, "_read_log", lambda _: "killed\n")

    with pytest.raises(NoResultError, match=r"(?s)log\.txt.*--target-replace 'urn:.*ray-1'"):
        JobResultProvider().create(PROPS)


def test_the_result_of_another_recipe_is_refused(project: Path) -> None:
    """An image made elsewhere may hold other code."""
    other = PROPS | {"recipe": texts(ARMS["ray"].settings(CnnRecipe(epochs=7)))}

    with pytest.raises(NoResultError, match="epochs"):
        JobResultProvider().create(other)


@pytest.mark.parametrize(
    ("uid", "changes", "replaces"),
    [({"uid": "1"}, False, []), ({"uid": "2"}, None, ["uid"]), ({"uid": UNKNOWN}, None, []), ({}, None, ["uid"])],
)
def test_another_job_has_another_result(uid: dict[str, Any], changes: bool | None, replaces: list[str]) -> None:
    """And nothing else has: the log is read once. Whether an unknown Job is another one is left open; a Job of which no
    dry run can be made, since its namespace is gone, has no uid in a preview."""
    given = PROPS | {"kubeconfig": "elsewhere", "jobUrn": "moved"}
    found = JobResultProvider().diff("id", PROPS, {name: given[name] for name in given.keys() - {"uid"}} | uid)

    assert (changes, replaces) == (found.changes, found.replaces)


BEGAN, ENDED = "2025-03-01T12:00:10Z", "2025-03-01T12:00:50Z"


def at(seconds: int) -> int:
    """A time in that minute as Ray has it."""
    return int(datetime.fromisoformat("2025-03-01T12:00:00Z").timestamp() + seconds) * 1000


def refusal(props: dict[str, Any], says: str) -> str:
    """Why a run does not count, in which that has to be; without what differs each time."""
    with pytest.raises(NoResultError, match=says) as error:
        JobResultProvider().create(props)
    return re.sub(r"-\d{8}T\d{6}Z-[0-9a-f]{6}", "-TIME", str(error.value))


JOBS = "/apis/batch/v1"
HELD = {"template": {"metadata": {"labels": {kueue.PODSET_LABEL: "main"}}}}
QUEUE = {"queue": "training"}


@pytest.mark.parametrize(
    ("job", "refused"),
    [
        ({"start_time": at(0), "end_time": at(5), "status": "SUCCEEDED"}, False),
        ({"start_time": at(0), "end_time": at(15), "status": "STOPPED"}, True),
        ({"start_time": at(20), "end_time": at(25), "status": "SUCCEEDED"}, True),
        ({"start_time": at(40), "end_time": None, "status": "RUNNING"}, True),
        ({"start_time": at(55), "end_time": None, "status": "RUNNING"}, False),
        ({"start_time": at(20), "end_time": at(25), "status": "SUCCEEDED", "metadata": mark("ci")}, False),
    ],
    ids=["before", "into it", "within", "out of it", "after", "a run of the measurement"],
)
@pytest.mark.usefixtures("project")
def test_a_run_beside_which_others_ran_does_not_count(
    monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], refused: bool, *, api: Api, kubeconfig: str, wording: Wording
) -> None:
    """Of whatever arm, by the Job's own times; with the line that makes it again."""
    monkeypatch.setattr(ForwardedJobs, "jobs", lambda _: [{"submission_id": "train-1", "metadata": {}} | job])
    times = {"startTime": BEGAN, "completionTime": ENDED}
    api.put(JOBS, "jobs", {"metadata": {"name": "native-1-x", "uid": "1"}, "status": times}, NAMESPACE)
    props = PROPS | {"kubeconfig": kubeconfig}
    if not refused:
        assert JobResultProvider().create(props).id
        return
    text = refusal(props, r"(?s)train-1\. .*--target-replace 'urn:")
    if job["status"] == "RUNNING":  # one of those that are refused in the same words
        wording("cluster", text)


@pytest.mark.parametrize(
    ("queue", "held", "refused"),
    [(QUEUE, False, True), (QUEUE, True, False), ({}, False, False)],
    ids=["left alone", "held back", "no queue"],
)
@pytest.mark.usefixtures("project")
def test_a_run_that_no_queue_held_back_does_not_count(
    queue: dict[str, str], *, held: bool, refused: bool, api: Api, kubeconfig: str, wording: Wording
) -> None:
    """Though one was set, and Kueue took the run's Job: the RayCluster was there without quota."""
    of_ray = {"headGroupSpec": HELD if held else {"template": {}}}
    api.put(JOBS, "jobs", {"metadata": {"name": "ray-1-x", "uid": "1"}, "spec": HELD}, NAMESPACE)
    ray = {"metadata": {"name": ray_cluster.NAME, "uid": "2"}, "spec": of_ray}
    api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", ray, NAMESPACE)
    props = PROPS | {"kubeconfig": kubeconfig} | queue
    if not refused:
        assert JobResultProvider().create(props).id
        return
    text = refusal(props, r"(?s)ray\.io/raycluster.*--target-replace 'urn:")

    assert kueue.OF_JOBS not in text
    wording("cluster", text)


@pytest.mark.parametrize(("status", "queue", "counts"), [(503, QUEUE, False), (403, QUEUE, True), (503, {}, True)])
@pytest.mark.parametrize("kind", ["jobs", "workloads"])
@pytest.mark.usefixtures("project")
def test_a_run_counts_once_kueue_could_be_asked(
    kind: str, status: int, queue: dict[str, str], *, counts: bool, api: Api, kubeconfig: str
) -> None:
    """Whether it was evicted; not for somebody who may not. The next update asks again."""
    group = "kueue.x-k8s.io"
    api.put(JOBS, "jobs", {"metadata": {"name": "ray-1-x", "uid": "1"}, "spec": HELD}, NAMESPACE)
    api.objects[f"/apis/{group}"] = {"preferredVersion": {"groupVersion": f"{group}/v1beta2"}, "metadata": {}}
    of_kind = {"jobs": JOBS, "workloads": f"/apis/{group}/v1beta2"}[kind]
    api.refused[f"{of_kind}/namespaces/{NAMESPACE}/{kind}"] = status
    props = PROPS | {"kubeconfig": kubeconfig} | queue
    if counts:
        assert JobResultProvider().create(props).id
    else:
        refusal(props, "does not repeat")
