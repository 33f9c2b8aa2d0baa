"""What an update says of pods that wait, and that it ends if they do so in vain, with the real engine and KubeRay."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from infra.places.cluster.api import kube, waits
from infra.places.cluster.manifests import ray_cluster
from tests.limits import LONGEST_SECONDS, wait_for
from tests.platform.cluster import Cluster
from tests.platform.stacks import give_result, new_stack, of_ray
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

MOST_CPUS = 64
"""Of a node."""


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster) -> Project:  # noqa: F811
    """A stack with Ray's part of a measurement."""
    return of_ray(new_stack(new_project, cluster, workers="2"))


@contextmanager
def quota(cluster: Cluster, pods: int) -> Iterator[None]:
    """Let the namespace have no more pods."""
    path = cluster.path("v1/resourcequotas")
    kube.create(cluster.api, path, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": str(pods)}}})
    wait_for(lambda: kube.get(cluster.api, f"{path}/small").get("status", {}).get("hard"))
    yield
    kube.delete(cluster.api, f"{path}/small")
    wait_for(lambda: kube.find(cluster.api, f"{path}/small") is None)


def test_a_worker_that_no_node_takes_is_said_while_it_is_waited_for(project: Project) -> None:
    """The scheduler's words, long before the wait ends."""
    project.configure(workerCpus=str(MOST_CPUS + 1), allowOversubscription="true")
    with project.running_up() as started:
        wait_for(lambda: "ray-ready: a pod waits: 0/20 nodes are available" in project.shown())
        end_now(project, started)


def end_now(project: Project, started: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C twice: after the first an update finishes what goes on, which a wait does too."""
    os.kill(started.pid, signal.SIGINT)
    wait_for(lambda: "^C received" in project.shown())
    os.kill(started.pid, signal.SIGINT)
    assert started.wait(LONGEST_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize(("pods", "waits_for"), [(1, "the Ray cluster"), (3, "ray-1 failed")])
def test_refused_pods_end_an_update(pods: int, waits_for: str, project: Project, cluster: Cluster) -> None:
    """Those of Ray's workers, and the one of a run."""
    give_result(cluster, 2)
    with quota(cluster, pods):
        said = project.up(ok=False)
    assert "exceeded quota: small" in said
    assert waits_for in said
    assert waits.GIVE_UP_SECONDS < LONGEST_SECONDS

    project.up()
    project.up("--expect-no-changes")


def test_what_was_deleted_by_other_means_is_said_with_the_line_that_goes_on(project: Project, cluster: Cluster) -> None:
    """Pulumi believes its state: an update would find nothing to do for the RayCluster, and fail at its first job."""
    give_result(cluster, 2)
    project.up()
    path = cluster.path("ray.io/v1/rayclusters", ray_cluster.NAME)
    kube.delete(cluster.api, path)
    wait_for(lambda: kube.find(cluster.api, path) is None)

    preview, update = project.pulumi("preview"), project.up(ok=False)
    for said in (preview, update):
        assert "pulumi refresh --yes && pulumi up" in said
        assert f"RayCluster {ray_cluster.NAME}" in said
    project.pulumi("refresh", "--yes")
    project.up()
    assert 2 == cluster.ray_status()["readyWorkerReplicas"]
    project.up("--expect-no-changes")
