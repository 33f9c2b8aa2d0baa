"""A Kueue whose configuration leaves out one of our kinds: known from what ran nevertheless."""

from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.api import kueue as kueue_api
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.jobs import job as job_of
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from tests.limits import wait_for
from tests.platform.cluster import Cluster
from tests.platform.programs import FRAMEWORKS, Kueue
from tests.platform.queues import QUEUE, jobs, stack
from tests.platform.stacks import give_result, new_stack, of_ray
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.unit.settings_machine import plan_runs


def make_both(cluster: Cluster) -> dict[str, Any]:
    """Make the RayCluster and a Job of a stack in the queue, and wait until they have started; gives the Job."""
    asked = stack(cluster, workers="1")
    pods, labels = pods_of(asked), {QUEUE_LABEL: QUEUE}
    cluster.make_ray_cluster(ray_cluster.spec(pods.ray_cluster), labels)
    (plan,) = [plan for plan in plan_runs(asked) if plan.arm == "baseline"]
    job = {"metadata": {"name": "baseline", "labels": labels}, "spec": job_of(plan, pods.jobs)}
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)
    wait_for(lambda: 1 == cluster.ray_status().get("readyWorkerReplicas"))
    wait_for(lambda: jobs(cluster)[0]["status"].get("startTime"))
    return jobs(cluster)[0]


def test_what_kueue_holds_back_is_known_from_it(cluster: Cluster, team: str) -> None:
    """Also after it was admitted."""
    assert team
    assert [] == kueue_api.left_alone(cluster.api, cluster.namespace, make_both(cluster))


@pytest.mark.parametrize("taken", FRAMEWORKS)
def test_a_kind_that_kueue_leaves_alone_is_named(cluster: Cluster, team: str, kueue: Kueue, taken: str) -> None:
    """By the name that its configuration has for it."""
    assert team
    (other,) = set(FRAMEWORKS) - {taken}
    with kueue.taking(taken):
        ran_alone = kueue_api.left_alone(cluster.api, cluster.namespace, make_both(cluster))
        cluster.remove()

    assert [other] == ran_alone


def test_a_run_outside_of_the_queue_is_none(
    new_project: NewProject,  # noqa: F811
    cluster: Cluster,
    team: str,
    kueue: Kueue,
) -> None:
    """The update ends with what Kueue left alone."""
    assert team
    project = of_ray(new_stack(new_project, cluster, queue=QUEUE, workers="1"))
    give_result(cluster, 1)
    with kueue.taking("batch/job"):
        shown = project.up(ok=False)
        cluster.remove()

    assert kueue_api.OF_RAY in shown
    assert kueue_api.OF_JOBS not in shown
