"""What a ClusterQueue may use of its cohort, beside what a real Kueue says of it."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.places.cluster.api import kube, kueue
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.jobs import job as job_of
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import quota
from infra.places.kubernetes.cohorts import Cohorts
from tests.golden import Wording
from tests.limits import wait_for
from tests.platform.cluster import GPU, Cluster
from tests.platform.queues import API, QUEUE, give, job_of_somebody, of, quota_of, reserved, stack, workloads
from tests.unit.kueue_objects import group
from tests.unit.settings_machine import plan_runs

OTHER = "lender"
COHORTS = f"/apis/{API}/cohorts"
MAXIMUM = re.compile(r"maximum capacity \((\w+)\)")
"""What Kueue says of a Job that will never fit."""


@pytest.fixture
def tree(cluster: Cluster, team: str) -> Iterator[Callable[..., None]]:
    """Makes the ClusterQueue of the team and another one, both in the cohort `inner`, and Cohorts with quotas; those of
    the test before are gone, which would lend theirs."""

    def make(own: str, other: str, name: str = "cpu", stop: str = "None", **cohorts: dict[str, Any]) -> None:
        wait_for(
            lambda: not any("deletionTimestamp" in each["metadata"] for each in kueue.cohorts(cluster.api, API)[0])
        )
        more = {} if name == "cpu" else {"cpu": "64"}
        for cohort, spec in cohorts.items():
            of_all = {key: value for key, value in spec.items() if key != "quota"}
            groups = [group({"default": {name: spec["quota"]}})] if "quota" in spec else []
            kube.apply(cluster.api, f"{COHORTS}/{cohort}", of("Cohort", cohort, {"resourceGroups": groups, **of_all}))
        give(cluster, OTHER, {"memory": "1Gi", name: other}, cohortName="inner", stopPolicy=stop)
        give(cluster, team, {"memory": "256Gi", **more, name: own}, cohortName="inner")
        wait_for(lambda: quota_of(cluster, OTHER).get("status", {}).get("conditions"))

    yield make
    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{OTHER}")
    for each in kube.items(cluster.api, COHORTS):
        kube.delete(cluster.api, f"{COHORTS}/{each['metadata']['name']}")


def counted(cluster: Cluster, team: str, name: str) -> float:
    """What is counted here."""
    return Cohorts(*kueue.cohorts(cluster.api, API)).most(team, ("default", name))


def said_by_kueue(cluster: Cluster, name: str) -> float:
    """What Kueue says, of a Job for which it is too little."""
    from kubernetes.utils import parse_quantity

    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job_of_somebody("huge", {name: "1000"}))
    (workload,) = wait_for(lambda: [each for each in workloads(cluster, "Job") if reserved(each) is False])
    found = MAXIMUM.search(str(workload["status"]["conditions"]))
    assert found
    return float(parse_quantity(found[1]))


OUTER = {"parentName": "outer"}


@pytest.mark.parametrize(
    ("own", "other", "cohorts", "most"),
    [
        ("2", "3", {}, 5),
        ("2", "3 lends 1", {}, 3),
        ("2", "3 lends 0", {}, 2),
        ("2 borrows 1500m", "3", {}, 3.5),
        ("2 borrows 0", "3", {}, 2),
        ("2 lends 500m", "3 lends 1", {}, 3),
        ("2 borrows 2", "3", {"inner": {"quota": "4"}}, 4),
        ("2", "3", {"inner": {"quota": "4"}}, 9),
        ("2", "3", {"inner": OUTER, "outer": {"quota": "7"}}, 12),
        ("2", "3", {"inner": {**OUTER, "quota": "1 borrows 2"}, "outer": {"quota": "7"}}, 8),
        ("2", "3", {"inner": OUTER, "outer": {}, "beside": {**OUTER, "quota": "6 lends 5"}}, 10),
    ],
)
def test_a_cohort_lends_what_kueue_says(
    cluster: Cluster, team: str, tree: Callable[..., None], *, own: str, other: str, cohorts: Any, most: float
) -> None:
    """With limits, a quota of cohorts, and cohorts in cohorts."""
    tree(own, other, **cohorts)

    assert most == counted(cluster, team, "cpu") == said_by_kueue(cluster, "cpu")


@pytest.mark.parametrize(("other", "most"), [("4", 5), ("4 lends 2", 3)])
def test_gpus_are_lent_as_cpus_are(
    cluster: Cluster, team: str, tree: Callable[..., None], other: str, most: float
) -> None:
    """Under their own name."""
    tree("1", other, GPU)

    assert most == counted(cluster, team, GPU) == said_by_kueue(cluster, GPU)


def test_a_queue_that_is_stopped_lends_nevertheless(cluster: Cluster, team: str, tree: Callable[..., None]) -> None:
    """Its owner holds back its own workloads."""
    tree("2", "3", stop="Hold")

    assert 5 == counted(cluster, team, "cpu") == said_by_kueue(cluster, "cpu")


@pytest.mark.parametrize(("other", "fits"), [("1", True), ("1 lends 0", False)])
def test_a_measurement_on_lent_gpus(
    cluster: Cluster, team: str, tree: Callable[..., None], wording: Wording, *, other: str, fits: bool
) -> None:
    """Ray's worker has the queue's own, and the baseline another one's, or waits for ever."""
    of_gpus = {"workload": "script", "script": "examples/torch_ddp.py", "workerGpus": "1", "nativeArm": "true"}
    asked = stack(cluster, workers="1", **of_gpus)
    tree("1", other, GPU)
    refused = list(quota.problems(cluster.api, asked))
    pods, labels = pods_of(asked), {QUEUE_LABEL: QUEUE}
    cluster.make_ray_cluster(ray_cluster.spec(pods.ray_cluster), labels)
    wait_for(lambda: [True] == [reserved(each) for each in workloads(cluster, "RayCluster")])
    (plan,) = [plan for plan in plan_runs(asked) if plan.arm == "baseline"]
    job = {"metadata": {"name": "baseline", "labels": labels}, "spec": job_of(plan, pods.jobs)}
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)

    assert [fits] == wait_for(lambda: [each for each in map(reserved, workloads(cluster, "Job")) if each is not None])
    assert fits == (not refused)
    for problem in refused:
        wording("platform", str(problem).replace(team, "<queue>"))


def test_cohorts_that_are_each_other_s_parents(
    cluster: Cluster, team: str, tree: Callable[..., None], wording: Wording
) -> None:
    """Kueue admits nothing, and says so to nobody."""
    tree("64", "1", inner=OUTER, outer={"parentName": "inner"})

    (problem,) = quota.problems(cluster.api, stack(cluster))

    wording("platform", str(problem).replace(team, "<queue>"))
