"""`make recovery` of a stack on a cluster: what it reads of a run's log, and that it ends what it began."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import kube
from infra.places.cluster.ray_cluster_spec import WORKER_LABELS
from tests.unit.fake_ray import TOKEN, FakeRay, serving
from tests.unit.kube_api import Api
from tests.unit.kube_api import serving as serving_kubernetes
from tests.unit.results import make_recipe, make_result
from tools.jobs.__main__ import Ray
from tools.look import cluster
from tools.recovery import __main__ as tool
from tools.recovery import on_cluster
from tools.recovery.on_cluster import OnCluster
from tools.recovery.run import Wanted
from tools.setup.project import ToolError
from tools.stack import settings as stack_settings
from training.contract import progress
from training.contract.recipe import canonical
from training.launch import log_result
from training.launch.checkpoints import InStorage, seal
from training.launch.storage import Storage
from training.launch.submit import JobsApi

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
        worker = {"metadata": {"name": "worker-1", "labels": dict(WORKER_LABELS)}, "status": {"phase": "Running"}}
        api.put("/api/v1", "pods", worker, NAMESPACE)
        found = cluster.find("ci", {})
        yield OnCluster(Ray(found, kube.connect(kubeconfig), JobsApi(address, TOKEN)), ("--dataset-path=/data",)), api


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

    ended = runs.run(wanted(kept(tmp_path), 1.0), kill=True)

    assert EVENTS == [seen.event for seen in ended.events]
    assert ended.killed_at is not None
    assert "ray" == ended.result.arm
    assert not [path for path in api.objects if "pods" in path]
    (body,) = [body for method, path, body in ray.requests if (method, path) == ("POST", "/api/jobs/")]
    assert {progress.ECHO: progress.AS_JSON, progress.EACH_STEP: "1"} == body["runtime_env"]["env_vars"]
    assert "--dataset-path=/data" in body["entrypoint"]


def test_a_run_that_does_not_end_is_ended(there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path) -> None:
    """And so is one that Ctrl-C leaves."""
    runs, _ = there
    ray.submitted, ray.logs = ["RUNNING"], {"recovery-1-killed": ""}

    with pytest.raises(ToolError, match="did not end in runTimeoutMinutes"):
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 0.0), kill=True)

    assert ["STOPPED"] == ray.states["recovery-1-killed"]


def test_a_run_without_a_result_says_how_its_log_ends(
    there: tuple[OnCluster, Api], ray: FakeRay, tmp_path: Path
) -> None:
    """As one that was refused by its storage."""
    runs, _ = there
    ray.logs["recovery-1-killed"] = "error: storage can't be used\n"

    with pytest.raises(ToolError, match=r"(?s)holds no result.*\| error: storage can't be used"):
        runs.run(wanted(str(tmp_path / "recovery-1" / "killed"), 1.0), kill=False)


def test_without_storage_pods_keep_nothing() -> None:
    """So there is nothing to go on from."""
    with pytest.raises(ToolError, match=r"(?s)storage is not set.*pulumi config set storage s3://"):
        tool._recipe(stack_settings.load("ci", {"epochs": "4"}))
