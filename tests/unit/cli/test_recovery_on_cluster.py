"""`rwi bench recovery` of a stack on a cluster: what it reads of a run's log, and that it ends what it began."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from cli.jobs.jobs import Ray, refuse_beside_measurement
from cli.look import cluster
from cli.recovery import on_cluster
from cli.recovery import recovery as tool
from cli.recovery.on_cluster import OnCluster
from cli.recovery.run import Victim, Wanted
from cli.setup.project import ToolError
from cli.stack import settings as stack_settings
from infra.places.cluster import run_credentials
from infra.places.cluster.api import kube
from infra.places.cluster.manifests.pod_parts import STACK_ANNOTATION
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.places.cluster.manifests.storage_access import ROLE_SECRET
from infra.storage_role import Assumed
from tests.golden import Wording
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from tests.unit.kube_api import Api, pod
from tests.unit.kube_api import serving as serving_kubernetes
from tests.unit.results import make_recipe, make_result
from training.contract import progress
from training.contract.recipe import canonical
from training.launch.pod import log_result
from training.launch.ray.jobs_api import JobsApi
from training.launch.ray.other_jobs import mark, running_others
from training.launch.storage.checkpoint_store import InStorage, seal
from training.launch.storage.run_storage import Storage

EVENTS: list[dict[str, Any]] = [
    {"event": "start"},
    {"event": "checkpoint", "epoch": 1, "step": 4},
    {"event": "steps", "step": 6},
    {"event": "resume", "epoch": 1, "step": 4},
    {"event": "steps", "step": 7},
]
RAYS = "\x1b[36m(RayTrainWorker pid=7, ip=10.0.0.7)\x1b[0m "
NAMESPACE = "ray-system"


def log_of(events: list[dict[str, Any]]) -> str:
    """A run's, as Ray shows what its worker printed; between what others print."""
    lines = [f"{RAYS}{progress.MARK}{json.dumps(event)}\n{RAYS}a warning\n" for event in events]
    return "".join(lines) + f"{log_result.MARKER}\n{canonical(make_result('ray').to_dict())}\n"


def test_events_are_read_from_a_log_that_grows() -> None:
    """A line that is not whole is read when it is; what is no event is none."""
    log = log_of(EVENTS)
    cut = log.index('"steps"')

    before = list(progress.in_log(log[:cut]))
    assert EVENTS[:2] == before
    assert EVENTS[2:] == list(progress.in_log(log[log[:cut].rfind("\n") + 1 :]))


@pytest.fixture
def ray() -> FakeRay:
    """One whose jobs wait, run and end."""
    return FakeRay(submitted=["RUNNING", "RUNNING", "SUCCEEDED"])


@pytest.fixture
def there(ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OnCluster, Api]]:
    """The Ray cluster of a stack, whose one worker has a pod."""
    monkeypatch.setattr(on_cluster, "POLL_SECONDS", 0.01)
    with serving_kubernetes(tmp_path) as (api, kubeconfig), serving(ray) as address:
        put(api, "worker-1", WORKER_LABELS)
        found = cluster.find("ci", {})
        yield OnCluster(Ray(found, kube.connect(kubeconfig), JobsApi(address, TOKEN)), ("--dataset-path=/data",)), api


def put(api: Api, name: str, labels: Mapping[str, str], *, ready: bool = True) -> None:
    """A pod that runs, of which Kubernetes knows that."""
    made = pod(name, labels=dict(labels))
    made["metadata"]["uid"] = f"uid-of-{name}"
    made["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    api.put("/api/v1", "pods", made, NAMESPACE)


class KubeRay:
    """Makes another head where one is deleted, which knows no job: ready after a while, its worker after it."""

    def __init__(self, api: Api, ray: FakeRay) -> None:
        self._api, self._ray = api, ray
        self._answer, ray.answer = ray.answer, self.answer  # type: ignore[method-assign]
        self.nodes_asked = 0
        self.is_ready = True
        ray.cpus = (0.0, 4.0)
        put(api, "head-1", HEAD_LABELS)
        api.on_delete = self.make_another

    def make_another(self, deleted: dict[str, Any]) -> None:
        """It is there at once, and its dashboard answers before Kubernetes has seen it ready."""
        assert "head-1" == deleted["metadata"]["name"]
        self._ray.states.clear()
        self._ray.cpus, self.is_ready, self.nodes_asked = (0.0,), False, 0
        put(self._api, "head-2", HEAD_LABELS, ready=False)
        Timer(0.1, self.become_ready).start()

    def become_ready(self) -> None:
        """As Kubernetes sees it."""
        self.is_ready = True
        put(self._api, "head-2", HEAD_LABELS)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """As Ray does; a job that comes too early is refused."""
        if path.startswith("/api/v0/nodes"):
            self.nodes_asked += 1
            self._ray.cpus = (0.0, 4.0) if self.nodes_asked > 3 else self._ray.cpus
        if method == "POST" and not (self.is_ready and len(self._ray.cpus) > 1):
            return 400, "too early"
        return self._answer(method, path, body)


def wanted(storage: str, minutes: float) -> Wanted:
    """A run."""
    return Wanted(recipe=make_recipe(), dataset_path="", storage=storage, minutes=minutes)


def kept(tmp_path: Path) -> str:
    """Storage with a checkpoint."""
    address, made = tmp_path / "recovery-1" / "killed", tmp_path / "made"
    made.mkdir()
    (made / "file").write_text("x")
    seal(made, 2, 0.5)
    InStorage(Storage.at(str(address)), 3).keep(made, {"epoch": 2, "score": 0.5})
    return str(address)


def test_a_worker_s_pod_is_deleted_after_the_first_checkpoint(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path
) -> None:
    """Once, and without a moment to end; the run is told to say every step, for programs."""
    runs, api = there
    ray.logs["recovery-1-killed"] = log_of(EVENTS)

    ended = runs.run(wanted(kept(tmp_path), 1.0), kill=Victim.WORKER)

    assert EVENTS == [seen.event for seen in ended.events]
    assert ended.killed_at is not None
    assert "ray" == ended.result.arm
    assert not [path for path in api.objects if "pods" in path]
    (body,) = [body for method, path, body in ray.requests if (method, path) == ("POST", "/api/jobs/")]
    assert {progress.ECHO: progress.AS_JSON, progress.EACH_STEP: "1"} == body["runtime_env"]["env_vars"]
    assert "--dataset-path=/data" in body["entrypoint"]


def test_a_role_is_assumed_for_each_job(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Its credentials of the last measurement may have ended; a Secret that is another stack's stays as it is."""
    runs, api = there
    given = {"storage": "s3://bucket/prefix", "storageRole": "arn:aws:iam::123456789012:role/training"}
    runs = replace(runs, ray=replace(runs.ray, place=cluster.find("ci", given)))
    later = datetime.now(UTC) + timedelta(hours=1)
    asked, there_by_then, answer = list[tuple[Any, ...]](), list[str](), ray.answer

    def assumed(*about: Any) -> Assumed:
        asked.append(about)
        return Assumed("key", "secret", "session", later)

    def answered(method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST":
            there_by_then.extend(api.objects)
        return answer(method, path, body)

    monkeypatch.setattr(run_credentials, "assumed", assumed)
    monkeypatch.setattr(ray, "answer", answered)
    ray.logs["recovery-1-killed"] = log_of(EVENTS)

    runs.run(wanted(kept(tmp_path), 40.0), kill=Victim.WORKER)

    assert [(given["storageRole"], 40.0, "recovery")] == asked
    (secret,) = [path for path in api.objects if path.endswith(f"/secrets/{ROLE_SECRET}")]
    assert secret in there_by_then
    api.objects[secret]["metadata"]["annotations"] = {STACK_ANNOTATION: "another"}
    with pytest.raises(ToolError, match="another") as refused:
        runs.run(wanted(str(tmp_path / "recovery-2" / "killed"), 40.0), kill=None)
    wording("recovery", str(refused.value))


def test_the_head_s_pod_is_deleted_and_the_job_submitted_to_another(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path
) -> None:
    """When that has its worker: under another name, all else as it was; what the first job said is known."""
    runs, api = there
    KubeRay(api, ray)
    ray.logs = {"recovery-1-killed": log_of(EVENTS[:3]), "recovery-1-killed-again": log_of(EVENTS[3:])}

    ended = runs.run(wanted(kept(tmp_path), 1.0), kill=Victim.HEAD)

    assert EVENTS == [seen.event for seen in ended.events]
    assert ended.killed_at is not None
    assert ended.events[2].at <= ended.killed_at < ended.events[3].at
    assert {"head-2", "worker-1"} == {path.rpartition("/")[2] for path in api.objects if "/pods/" in path}
    first, again = [body for method, path, body in ray.requests if (method, path) == ("POST", "/api/jobs/")]
    assert again == first | {"submission_id": "recovery-1-killed-again"}
    assert ["recovery-1-killed-again"] == list(ray.states)


def test_a_head_that_is_not_made_again_is_said(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With where to look; nothing is submitted then."""
    runs, api = there
    monkeypatch.setattr(KubeRay, "become_ready", lambda _: None)
    KubeRay(api, ray)
    ray.logs = {"recovery-1-killed": log_of(EVENTS[:3])}

    with pytest.raises(ToolError, match=r"runTimeoutMinutes 0:.*./rwi status") as refused:
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 0.0), kill=Victim.HEAD)
    wording("recovery", str(refused.value))

    assert not ray.states


def test_a_run_that_does_not_end_is_ended(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path, wording: Wording
) -> None:
    """And so is one that Ctrl-C leaves."""
    runs, _ = there
    ray.submitted, ray.logs = ["RUNNING"], {"recovery-1-killed": ""}

    with pytest.raises(ToolError, match="runTimeoutMinutes") as refused:
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 0.0), kill=Victim.WORKER)
    wording("recovery", str(refused.value))

    assert ["STOPPED"] == ray.states["recovery-1-killed"]


def test_a_run_without_a_result_says_how_its_log_ends(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path
) -> None:
    """As one that was refused by its storage."""
    runs, _ = there
    ray.logs["recovery-1-killed"] = "error: no storage\n"

    with pytest.raises(ToolError, match=r"\| error: no"):
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 1.0), kill=None)


def test_nothing_is_begun_beside_somebody_s_job(
    there: tuple[OnCluster, Api], ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no mark of a measurement, and would be lost with the pod; the refusal says how to end it."""
    runs, _ = there
    monkeypatch.setattr(on_cluster, "reach", lambda _: runs.ray)
    ray.states["colleagues-training-1"] = ["RUNNING"]

    with pytest.raises(ToolError, match=r"(?s)colleagues-training-1.*./rwi jobs stop colleagues-training-1 --stack ci"):
        OnCluster.of("ci", {})

    ray.states["colleagues-training-1"] = ["SUCCEEDED"]
    assert runs.ray == OnCluster.of("ci", {}).ray


def test_nothing_is_begun_beside_a_measurement(
    there: tuple[OnCluster, Api], ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the stack or of anybody."""
    runs, _ = there
    monkeypatch.setattr(on_cluster, "reach", lambda _: runs.ray)

    for owner in ("ci", "another"):
        ray.states["ray-1"], ray.marks["ray-1"] = ["RUNNING"], mark(owner)
        with pytest.raises(ToolError, match=r"(?s)is being measured.*./rwi jobs stop ray-1"):
            OnCluster.of("ci", {})


@pytest.mark.parametrize("victim", Victim)
def test_nothing_is_killed_beside_a_job_that_came_meanwhile(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path, victim: Victim
) -> None:
    """Whoever sent it: no pod is deleted, the job of the recovery alone is ended, and it says whose job it met."""
    runs, api = there
    put(api, "head-1", HEAD_LABELS)
    before = list(api.objects)
    ray.submitted, ray.logs["recovery-1-killed"], answer = ["RUNNING"], log_of(EVENTS[:3]), ray.answer

    def answered(method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST" and path == "/api/jobs/":
            ray.states["colleagues-training-1"] = ["RUNNING"]
        return answer(method, path, body)

    ray.answer = answered  # type: ignore[method-assign]

    with pytest.raises(ToolError, match=r"\./rwi jobs stop colleagues-training-1"):
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 1.0), kill=victim)

    assert before == list(api.objects)
    assert {"colleagues-training-1": ["RUNNING"], "recovery-1-killed": ["STOPPED"]} == ray.states


def test_no_job_is_let_in_while_it_trains(there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path) -> None:
    """`rwi jobs submit` refuses it with the line that ends the recovery; and an update ends nothing of it."""
    runs, _ = there
    ray.logs["recovery-1-killed"] = log_of(EVENTS)
    runs.run(wanted(kept(tmp_path), 1.0), kill=None)
    ray.states["recovery-1-killed"] = ["RUNNING"]

    with pytest.raises(ToolError, match=r"\./rwi jobs stop recovery-1-killed"):
        refuse_beside_measurement(runs.ray, "nothing was submitted")
    assert ["recovery-1-killed"] == [job["submission_id"] for job in running_others(runs.ray.jobs.jobs(), "ci")]


def test_without_storage_pods_keep_nothing(wording: Wording) -> None:
    """So there is nothing to go on from."""
    with pytest.raises(ToolError, match=r"\./rwi set storage=s3://") as refused:
        tool._recipe(stack_settings.load("ci", {"epochs": "4"}), [Victim.WORKER])
    wording("recovery", str(refused.value))
