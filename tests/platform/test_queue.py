"""A stack in a queue of a real Kueue's: through the real engine, with KubeRay's own operator."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.places.cluster.api import kube, kueue, leftover_jobs
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.job_result import start_seconds
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import inspection
from tests.apiserver import control_plane
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS, wait_for
from tests.platform.cluster import Cluster
from tests.platform.queues import (
    API,
    HIGH,
    QUEUE,
    ROOMY,
    give,
    is_active,
    job_of_somebody,
    jobs,
    of,
    quota_of,
    stack,
    workloads,
)
from tests.platform.stacks import give_result, new_stack, of_ray, seconds_of
from tests.platform.test_waits import end_now
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project

WAITS_SECONDS = 4
STACK_FILE = "stacks/Pulumi.local.yaml"


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster, team: str) -> Project:  # noqa: F811
    """A stack in the queue, with Ray's part of a measurement."""
    return of_ray(new_stack(new_project, cluster, queue=QUEUE))


def test_a_run_says_how_long_it_waited(project: Project, cluster: Cluster, team: str) -> None:
    """While others have the quota: outside of the run. Another number of workers is admitted anew, without a
    conflict; and the next update changes nothing."""
    project.configure(workers="2")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "3"})  # the RayCluster's, and not the submitter's beside it
    with project.running_up() as started:
        (job,) = wait_for(lambda: jobs(cluster))
        assert job["spec"]["suspend"]
        time.sleep(WAITS_SECONDS)
        assert not jobs(cluster)[0]["status"].get("startTime")
        give(cluster, team, ROOMY)
        assert 0 == started.wait(LONGEST_SECONDS)
    seconds = seconds_of(project)

    assert seconds["queued"] >= WAITS_SECONDS - 1
    assert seconds["startup"] == pytest.approx(5.0)
    (ray,) = kube.items(cluster.api, cluster.path("ray.io/v1/rayclusters"))
    assert QUEUE == ray["metadata"]["labels"][QUEUE_LABEL]
    project.configure(workers="3")
    give_result(cluster, 3)
    project.up()
    assert {"training"} == {pod["spec"]["nodeSelector"]["test/pool"] for pod in cluster.workers()}
    project.up("--expect-no-changes")
    assert 3 == len(cluster.workers())
    project.pulumi("destroy", "--yes", "--skip-preview")
    wait_for(lambda: not cluster.pods())


def test_all_runs_are_in_the_queue_that_is_set(project: Project, cluster: Cluster, team: str) -> None:
    """Those of before are repeated there, once; so are those that leave it."""
    project.configure(workers="2")
    give_result(cluster, 2)
    kube.create(cluster.api, cluster.path(f"{API}/localqueues"), of("LocalQueue", "other", {"clusterQueue": team}))
    project.pulumi("config", "rm", "queue")
    before = set()
    for queue in (None, QUEUE, "other"):
        project.configure(**({"queue": queue} if queue else {}))
        project.up()
        (job,) = jobs(cluster)
        (ray,) = kube.items(cluster.api, cluster.path("ray.io/v1/rayclusters"))

        assert [queue, queue] == [each["metadata"].get("labels", {}).get(QUEUE_LABEL) for each in (job, ray)]
        assert job["metadata"]["uid"] not in before
        before.add(job["metadata"]["uid"])
    project.up("--expect-no-changes")
    project.pulumi("refresh", "--yes", "--skip-preview")
    project.up("--expect-no-changes")


def test_a_run_that_an_update_left_in_the_queue_can_be_ended(project: Project, cluster: Cluster, team: str) -> None:
    """By the line that the next update gives: its deadline does not run while it waits."""
    project.configure(workers="2")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "3"})
    with project.running_up() as started:
        wait_for(lambda: [job for job in jobs(cluster) if job["status"].get("conditions")])
        os.killpg(started.pid, signal.SIGKILL)
    (job,) = leftover_jobs.unfinished_jobs(cluster.api, cluster.namespace)
    access = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "PATH": control_plane.search_path()}

    subprocess.run(["sh", "-c", leftover_jobs.end_line(job, cluster.namespace)], check=True, env=access)

    wait_for(lambda: not leftover_jobs.unfinished_jobs(cluster.api, cluster.namespace))
    give(cluster, team, ROOMY)
    project.pulumi("cancel", "--yes")
    project.up()
    assert seconds_of(project)["queued"] < WAITS_SECONDS


@pytest.mark.parametrize("is_admitted", [False, True])
def test_an_update_that_was_stopped_in_the_queue_goes_on(
    project: Project, cluster: Cluster, team: str, *, is_admitted: bool
) -> None:
    """While the RayCluster waits, and once Kueue has admitted it: what Kueue writes then is in nobody's way."""
    project.configure(workers="2")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "1"})
    with project.running_up() as started:
        wait_for(lambda: workloads(cluster, "RayCluster") and "ray-ready creating" in project.shown())
        end_now(project, started)
    if is_admitted:
        give(cluster, team, ROOMY)
        wait_for(lambda: 2 == cluster.ray_status().get("readyWorkerReplicas"))
        project.up()
    else:
        with project.running_up() as started:
            wait_for(lambda: "ray-ready creating" in project.shown())
            give(cluster, team, ROOMY)
            assert 0 == started.wait(LONGEST_SECONDS)
    project.up("--expect-no-changes")


@pytest.mark.slow
def test_a_run_that_was_preempted_is_none(project: Project, cluster: Cluster, team: str, wording: Wording) -> None:
    """Kueue lets its Job begin again when there is quota, and what that prints is no result of the run."""
    (project.folder / "pods.yaml").write_text("metadata: {annotations: {test/run: 6s}}")
    project.configure(workers="2", podTemplate="pods.yaml")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "3.1"})
    with project.running_up() as started:
        wait_for(lambda: [job for job in jobs(cluster) if job["status"].get("active")])
        preemptor = job_of_somebody(HIGH, {"cpu": "100m", "memory": "64Mi"}, **{"kueue.x-k8s.io/priority-class": HIGH})
        kube.create(cluster.api, cluster.path("batch/v1/jobs"), preemptor)
        wait_for(lambda: [job for job in jobs(cluster) if job["metadata"]["name"] != HIGH and job["spec"]["suspend"]])
        kube.delete(cluster.api, cluster.path("batch/v1/jobs", HIGH))
        assert started.wait(LONGEST_SECONDS)
    said = (project.folder / "up.txt").read_text()
    found = re.search(r"NoResultError: (.*)", said)
    assert found
    wording("platform", found[1])


def test_what_the_quota_never_holds_waits_with_kueue_s_words(project: Project, cluster: Cluster, team: str) -> None:
    """Told while it waits: a preview does not count what Kueue counts."""
    project.configure(workers="2")
    give(cluster, team, {**ROOMY, "cpu": "1"})
    assert "admits" not in project.pulumi("preview")
    with project.running_up() as started:
        wait_for(lambda: "waits in queue training (Pending): " in project.shown())
        give(cluster, team, ROOMY)
        give_result(cluster, 2)
        assert 0 == started.wait(LONGEST_SECONDS)


def test_a_queue_that_there_is_not_is_refused(cluster: Cluster, team: str, wording: Wording) -> None:
    """With those that there are; and one whose ClusterQueue is stopped, or gone, with Kueue's own words."""
    of_namespace = cluster.path(f"{API}/localqueues", QUEUE)
    (unknown,) = inspection.queue(cluster.api, stack(cluster, queue="nosuch"))
    wording("platform", str(unknown).replace(cluster.namespace, "<namespace>"))
    assert [] == list(inspection.queue(cluster.api, stack(cluster)))

    kube.patch(cluster.api, f"/apis/{API}/clusterqueues/{team}", {"spec": {"stopPolicy": "Hold"}})
    wait_for(lambda: "False" == kube.get(cluster.api, of_namespace)["status"]["conditions"][0]["status"])
    (held,) = inspection.queue(cluster.api, stack(cluster))
    wording("platform", str(held).replace(team, "<queue>"))


def test_the_start_of_the_ray_cluster_holds_no_queue(cluster: Cluster, team: str) -> None:
    """It begins when the queue admits it."""
    give(cluster, team, {**ROOMY, "cpu": "1"})
    cluster.make_ray_cluster(ray_cluster.spec(pods_of(stack(cluster, workers="1")).ray_cluster), {QUEUE_LABEL: QUEUE})
    time.sleep(2 * WAITS_SECONDS)
    assert not cluster.pods()
    give(cluster, team, ROOMY)
    wait_for(lambda: 1 == cluster.ray_status().get("readyWorkerReplicas"))
    path = cluster.path("ray.io/v1/rayclusters", ray_cluster.NAME)
    created = datetime.fromisoformat(kube.get(cluster.api, path)["metadata"]["creationTimestamp"])

    waited = (datetime.now(UTC) - created).total_seconds()
    assert wait_for(lambda: start_seconds(kube.get(cluster.api, path))) <= waited - 2 * WAITS_SECONDS + 2


def test_a_namespace_that_the_stack_would_make_has_no_queue(cluster: Cluster, wording: Wording) -> None:
    """It is the platform's to make."""
    (refused,) = inspection.queue(cluster.api, stack(cluster, namespace="not-there", createNamespace="true"))
    wording("platform", str(refused))


def test_quota_that_was_taken_back_before_the_start_evicted_no_run(cluster: Cluster, team: str) -> None:
    """As by an admission check that is tried again; Kueue counts it as an eviction, and what runs is named as waiting
    until then. One that was stopped while it ran is evicted."""
    check = {"conditions": [_condition("Active")]}
    kube.apply(
        cluster.api, f"/apis/{API}/admissionchecks/again", of("AdmissionCheck", "again", {"controllerName": "t"})
    )
    _set_status(cluster, f"/apis/{API}/admissionchecks/again", check)
    give(cluster, team, ROOMY, admissionChecksStrategy={"admissionChecks": [{"name": "again"}]})
    wait_for(lambda: is_active(quota_of(cluster, team)))
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job_of_somebody("run", {"cpu": "1", "memory": "1Gi"}))

    (job,) = wait_for(
        lambda: _answer_check(cluster) or [each for each in jobs(cluster) if each["status"].get("startTime")]
    )
    assert workloads(cluster, "Job")[0]["status"]["schedulingStats"]["evictions"]
    assert "" == kueue.eviction(cluster.api, cluster.namespace, job)

    kube.patch(cluster.api, cluster.path(f"{API}/localqueues", QUEUE), {"spec": {"stopPolicy": "HoldAndDrain"}})
    wait_for(lambda: kueue.eviction(cluster.api, cluster.namespace, job))
    kube.delete(cluster.api, f"/apis/{API}/admissionchecks/again")


def _answer_check(cluster: Cluster) -> list[Any]:
    """Have an admission check that waits tried again, and agree the second time; return nothing.

    As a controller does: at each look, for a workload that has quota, and never for one that has changed since.
    """
    for workload in workloads(cluster, "Job"):
        status = workload.get("status", {})
        holds = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        has_quota = "QuotaReserved" in holds and "Evicted" not in holds
        for check in status.get("admissionChecks") or () if has_quota else ():
            if check["state"] == "Pending":
                state = "Ready" if status.get("schedulingStats") else "Retry"
                answered = {**check, "state": state, "lastTransitionTime": _now()}
                version = {"resourceVersion": workload["metadata"]["resourceVersion"]}
                path = cluster.path(f"{API}/workloads", workload["metadata"]["name"])
                with suppress(KubeError):
                    _set_status(cluster, path, {"admissionChecks": [answered]}, version)
    return []


def _condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _set_status(cluster: Cluster, path: str, status: dict[str, Any], version: Mapping[str, str] | None = None) -> None:
    """As the controller of an admission check does. Raises KubeError where the object is of another version by now."""
    kube.patch(cluster.api, f"{path}/status", {"metadata": version or {}, "status": status})
