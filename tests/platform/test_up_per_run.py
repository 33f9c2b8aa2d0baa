"""`rayWorkers per-run` through the real engine: a run, another number of workers, a run that fails and is repeated."""

import pytest

from infra.places.cluster.api import kube
from tests.limits import LONGEST_SECONDS, wait_for
from tests.platform.cluster import Cluster
from tests.platform.stacks import give_result, new_stack, of_ray, seconds_of
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

PER_RUN = {"rayWorkers": "per-run"}


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster) -> Project:  # noqa: F811
    """A stack with Ray's part of a measurement."""
    return of_ray(new_stack(new_project, cluster, **PER_RUN))


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
    wait_for(lambda: not cluster.pods())


@pytest.mark.slow
def test_a_run_that_failed_is_repeated_with_workers_of_its_own(project: Project, cluster: Cluster) -> None:
    """What it left is taken away by the next update, which asks for them again."""
    (project.folder / "pods.yaml").write_text("metadata: {annotations: {test/run: 5s}}")
    project.configure(workers="2", podTemplate="pods.yaml")
    give_result(cluster, 2)
    with project.running_up() as started:
        wait_for(lambda: 2 == len(cluster.workers()))
        (pod,) = wait_for(lambda: [each for each in cluster.pods() if "job-name" in each["metadata"]["labels"]])
        path = cluster.path("v1/pods", pod["metadata"]["name"])
        kube.patch(cluster.api, path, {"metadata": {"annotations": {"test/fail": ""}}})
        assert started.wait(LONGEST_SECONDS)
    assert 2 == len(cluster.workers())
    steps = {each["urn"].rpartition("::")[2]: each["op"] for each in project.preview_steps()}
    assert "replace" == steps["ray-1-workers"]

    project.up()

    assert [] == cluster.workers()
    assert seconds_of(project)["scaleUp"]
