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
from tests.unit.kube_api import NAMESPACE, serving
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
def test_a_run_beside_which_others_ran_does_not_count(
    project: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], refused: bool, wording: Wording
) -> None:
    """Of whatever arm, by the Job's own times; with the line that makes it again."""
    monkeypatch.setattr(ForwardedJobs, "jobs", lambda _: [{"submission_id": "train-1", "metadata": {}} | job])
    with serving(project) as (api, kubeconfig):
        times = {"startTime": BEGAN, "completionTime": ENDED}
        api.put("/apis/batch/v1", "jobs", {"metadata": {"name": "native-1-x", "uid": "1"}, "status": times}, NAMESPACE)
        props = PROPS | {"kubeconfig": kubeconfig}
        if refused:
            with pytest.raises(NoResultError, match=r"(?s)train-1\. .*--target-replace 'urn:") as error:
                JobResultProvider().create(props)
            if "metadata" not in job and job["status"] == "RUNNING":  # one of those that are refused in the same words
                wording("cluster", re.sub(r"-\d{8}T\d{6}Z-[0-9a-f]{6}", "-TIME", str(error.value)))
        else:
            assert JobResultProvider().create(props).id


@pytest.mark.parametrize(
    ("in_queue", "held", "refused"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_run_that_no_queue_held_back_does_not_count(
    project: Path, wording: Wording, *, in_queue: bool, held: bool, refused: bool
) -> None:
    """Though one was set, and Kueue took the run's Job: the RayCluster was there without quota."""
    of_pods = {"template": {"metadata": {"labels": {kueue.PODSET_LABEL: "main"}}}}
    of_ray = {"headGroupSpec": of_pods if held else {"template": {}}}
    with serving(project) as (api, kubeconfig):
        api.put("/apis/batch/v1", "jobs", {"metadata": {"name": "ray-1-x", "uid": "1"}, "spec": of_pods}, NAMESPACE)
        ray = {"metadata": {"name": ray_cluster.NAME, "uid": "2"}, "spec": of_ray}
        api.put(f"/apis/{ray_cluster.API_VERSION}", "rayclusters", ray, NAMESPACE)
        props = PROPS | {"kubeconfig": kubeconfig} | ({"queue": "training"} if in_queue else {})
        if not refused:
            assert JobResultProvider().create(props).id
            return
        with pytest.raises(NoResultError, match=r"(?s)ray\.io/raycluster.*--target-replace 'urn:") as error:
            JobResultProvider().create(props)

    assert kueue.OF_JOBS not in str(error.value)
    wording("cluster", re.sub(r"-\d{8}T\d{6}Z-[0-9a-f]{6}", "-TIME", str(error.value)))


@pytest.mark.parametrize(("status", "in_queue", "counts"), [(503, True, False), (403, True, True), (503, False, True)])
@pytest.mark.parametrize("kind", ["jobs", "workloads"])
def test_a_run_counts_once_kueue_could_be_asked(
    project: Path, kind: str, status: int, *, in_queue: bool, counts: bool
) -> None:
    """Whether it was evicted; not for somebody who may not. The next update asks again."""
    group = "kueue.x-k8s.io"
    with serving(project) as (api, kubeconfig):
        held = {"template": {"metadata": {"labels": {kueue.PODSET_LABEL: "main"}}}}
        api.put("/apis/batch/v1", "jobs", {"metadata": {"name": "ray-1-x", "uid": "1"}, "spec": held}, NAMESPACE)
        api.objects[f"/apis/{group}"] = {"preferredVersion": {"groupVersion": f"{group}/v1beta2"}, "metadata": {}}
        of_kind = {"jobs": "/apis/batch/v1", "workloads": f"/apis/{group}/v1beta2"}[kind]
        api.refused[f"{of_kind}/namespaces/{NAMESPACE}/{kind}"] = status
        props = PROPS | {"kubeconfig": kubeconfig} | ({"queue": "training"} if in_queue else {})
        if counts:
            assert JobResultProvider().create(props).id
            return
        with pytest.raises(NoResultError, match="does not repeat"):
            JobResultProvider().create(props)
