"""`rayWorkers per-run` through the real engine: a run, another number of workers, a run that fails and is repeated."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from tests.platform.cluster import Cluster, until
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project
from tests.unit.results import make_result
from tests.unit.settings_machine import machine, parse, plan_runs
from training.launch.pod.log_result import MARKER

VALUES = {
    "target": "kubernetes",
    "kubeContext": "bare",
    "image": "registry.example.com/a:1",
    "createNamespace": "false",
    "operator": "existing",
    "repeats": "1",
    "nativeArm": "false",
    "rayWorkers": "per-run",
}


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster) -> Project:  # noqa: F811
    """A stack with Ray's part of a measurement."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    made = new_project()
    shutil.copy(Path(__file__).with_name("ray_runs.py"), made.folder / "__main__.py")
    made.environment["KUBECONFIG"] = cluster.kubeconfig
    made.create_stack(**VALUES, namespace=cluster.namespace)
    return made


def give_result(cluster: Cluster, workers: int) -> None:
    """Let the run's pod have printed a result."""
    of_stack = parse({**VALUES, "workers": str(workers)}, machine(cores=64, gib=256))
    (planned,) = [plan for plan in plan_runs(of_stack) if plan.arm == "ray"]
    result = make_result("ray", recipe=planned.recipe, startup_seconds=5.0)  # type: ignore[arg-type]  # the CNN's
    cluster.set_log(f"{MARKER}\n{json.dumps(result.to_dict())}")


def seconds_of(project: Project) -> dict[str, Any]:
    """The times of its run, as its folder has them."""
    newest = max(project.folder.glob("runs/local/ray-1-*/result.json"), key=lambda path: path.stat().st_mtime)
    return dict(json.loads(newest.read_text())["seconds"])


def test_workers_are_there_while_ray_runs(project: Project, cluster: Cluster) -> None:
    """Their start is in the run's; a second update changes nothing; another number is an update without a conflict."""
    for workers in (2, 3):
        project.configure(workers=str(workers))
        give_result(cluster, workers)
        project.up()
        seconds = seconds_of(project)

        assert [] == cluster.workers()
        assert seconds["scaleUp"] > 0
        assert seconds["startup"] == pytest.approx(5.0 + seconds["scaleUp"])
        assert {"workersCreated", "workersScheduled", "workersImage", "workersReady"} < seconds["phases"].keys()
    project.up("--expect-no-changes")
    assert not cluster.pods(**{"ray.io/node-type": "worker"})
    project.pulumi("destroy", "--yes", "--skip-preview")
    until(lambda: not cluster.pods())


@pytest.mark.slow
def test_a_run_that_failed_is_repeated_with_workers_of_its_own(project: Project, cluster: Cluster) -> None:
    """What it left is taken away by the next update, which asks for them again."""
    (project.folder / "pods.yaml").write_text("metadata: {annotations: {test/run: 5s}}")
    project.configure(workers="2", podTemplate="pods.yaml")
    give_result(cluster, 2)
    with project.running_up() as started:
        until(lambda: 2 == len(cluster.workers()), 90)
        (pod,) = until(lambda: [each for each in cluster.pods() if "job-name" in each["metadata"]["labels"]], 60)
        path = cluster.path("v1/pods", pod["metadata"]["name"])
        kube.patch(cluster.api, path, {"metadata": {"annotations": {"test/fail": ""}}})
        assert started.wait(120)
    assert 2 == len(cluster.workers())
    steps = {each["urn"].rpartition("::")[2]: each["op"] for each in project.preview_steps()}
    assert "replace" == steps["ray-1-workers"]

    project.up()

    assert [] == cluster.workers()
    assert seconds_of(project)["scaleUp"]
