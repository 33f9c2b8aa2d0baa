"""A stack in a queue of a real Kueue's: through the real engine, with KubeRay's own operator."""

import os
import re
import shlex
import signal
import subprocess
import time
from datetime import UTC, datetime

import pytest

from infra.places.cluster.api import kube, leftover_jobs
from infra.places.cluster.job_result import start_seconds
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.jobs import job as job_of
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import quota
from infra.settings.settings import Settings
from tests.apiserver import control_plane
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS, wait_for
from tests.platform.cluster import GPU, Cluster
from tests.platform.queues import (
    API,
    HIGH,
    POOL,
    QUEUE,
    ROOMY,
    give,
    is_active,
    job_of_somebody,
    jobs,
    of,
    quota_of,
    reserved,
    stack,
    workloads,
)
from tests.platform.stacks import give_result, new_stack, of_ray, seconds_of
from tests.platform.test_waits import end_now
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project
from tests.unit.kueue_objects import group
from tests.unit.settings_machine import plan_runs

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


def test_a_preview_refuses_what_the_quota_never_holds(
    new_project: NewProject,  # noqa: F811
    cluster: Cluster,
    team: str,
) -> None:
    """Of the whole program: with the numbers, and with lines that help when they are typed. One makes it a warning."""
    project = new_stack(new_project, cluster, queue=QUEUE, workers="2", workerCpus="2")
    give(cluster, team, {**ROOMY, "cpu": "6"})

    shown = project.pulumi("preview", ok=False)

    assert "7 cpu" in shown
    assert "6 cpu" in shown
    lines = [line.strip() for line in shown.splitlines() if line.strip().startswith("pulumi config ")]
    assert {"pulumi config set workers 1", "pulumi config rm queue"} <= set(lines)
    for line in lines:
        before = (project.folder / STACK_FILE).read_text()
        project.pulumi(*shlex.split(line)[1:])
        assert ("allowOversubscription" in line) == ("7 cpu" in project.pulumi("preview"))
        (project.folder / STACK_FILE).write_text(before)


def test_a_quota_that_never_holds_both_is_refused(cluster: Cluster, team: str, wording: Wording) -> None:
    """Ray's head, two workers, and the baseline's one; what others use meanwhile is no obstacle."""
    asked = stack(cluster, workers="2", workerCpus="2")
    give(cluster, team, {**ROOMY, "cpu": "6"})

    (problem,) = quota.problems(cluster.api, asked)

    wording("platform", str(problem).replace(team, "<queue>"))
    give(cluster, team, {**ROOMY, "cpu": "7"})
    assert [] == list(quota.problems(cluster.api, asked))


def test_a_queue_that_there_is_not_is_refused(cluster: Cluster, team: str, wording: Wording) -> None:
    """And one that its owner holds, with Kueue's own words; and one whose ClusterQueue is gone."""
    of_namespace = cluster.path(f"{API}/localqueues", QUEUE)
    (unknown,) = quota.problems(cluster.api, stack(cluster, queue="nosuch"))
    wording("platform", str(unknown).replace(cluster.namespace, "<namespace>"))

    kube.patch(cluster.api, f"/apis/{API}/clusterqueues/{team}", {"spec": {"stopPolicy": "Hold"}})
    wait_for(lambda: "False" == kube.get(cluster.api, of_namespace)["status"]["conditions"][0]["status"])
    (held,) = quota.problems(cluster.api, stack(cluster))
    wording("platform", str(held).replace(team, "<queue>"))

    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{team}")
    wait_for(lambda: not quota_of(cluster, team))
    (gone,) = quota.problems(cluster.api, stack(cluster))
    wording("platform", str(gone).replace(team, "<queue>"))


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


def test_the_check_gives_flavors_as_kueue_does(cluster: Cluster, team: str) -> None:
    """The first that has room, and is open to the pods. What that leaves to a run is too little, and it waits."""
    small = {"nodeLabels": POOL}
    tainted = {"nodeLabels": POOL, "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]}
    asked = stack(cluster, workers="2", nativeArm="true")
    for spec, amounts in ((small, ("2", "3")), (tainted, ("9", "4"))):
        kube.apply(cluster.api, f"/apis/{API}/resourceflavors/small", of("ResourceFlavor", "small", spec))
        give_flavors(cluster, team, dict(zip(("small", "default"), amounts, strict=True)))
        assert ["ClusterQueue"] == [problem.what.split()[0] for problem in quota.problems(cluster.api, asked)]
        pods = pods_of(asked)
        cluster.make_ray_cluster(ray_cluster.spec(pods.ray_cluster), {QUEUE_LABEL: QUEUE})
        wait_for(lambda: 2 == cluster.ray_status().get("readyWorkerReplicas"))
        (native,) = [plan for plan in plan_runs(asked) if plan.arm == "native"]
        job = {"metadata": {"name": "native", "labels": {QUEUE_LABEL: QUEUE}}, "spec": job_of(native, pods.jobs)}
        kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)
        wait_for(lambda: [False] == [reserved(each) for each in workloads(cluster, "Job")])
        cluster.remove()


def test_the_head_takes_nothing_of_a_flavor_that_its_affinity_keeps_it_off(cluster: Cluster, team: str) -> None:
    """Nor does the check count it there: the CPUs beside GPUs are for the pods that train."""
    spec = {"nodeLabels": {"accelerator": "h100"}}
    kube.apply(cluster.api, f"/apis/{API}/resourceflavors/gpus", of("ResourceFlavor", "gpus", spec))
    flavors = {"gpus": {**ROOMY, "cpu": "4", GPU: "4"}, "default": {**ROOMY, "cpu": "4", GPU: "0"}}
    give(cluster, team, {}, resourceGroups=[group(flavors)])
    of_gpus = {"workload": "script", "script": "examples/torch_ddp.py", "workerGpus": "1", "workerCpus": "1"}
    asked = stack(cluster, workers="2", nativeArm="true", gpuNodeSelector="accelerator=h100", **of_gpus)

    assert [] == list(quota.problems(cluster.api, asked))
    assert admitted_beside_ray(cluster, asked, "native")


@pytest.mark.parametrize("choice", ["TryNextFlavor", "MayStopSearch"])
def test_who_borrows_last_gets_another_flavor(cluster: Cluster, team: str, choice: str) -> None:
    """The head has the second flavour's one CPU then, and the others all that the cohort lends of the first."""
    small = of("ResourceFlavor", "small", {"nodeLabels": POOL})
    kube.apply(cluster.api, f"/apis/{API}/resourceflavors/small", small)
    lender = group({"small": {"cpu": "4", "memory": "99Gi"}})
    give(cluster, f"{team}-lender", {}, resourceGroups=[lender], cohortName=team)
    own = group({"small": {"cpu": "0", "memory": "99Gi"}, "default": {"cpu": "1", "memory": "99Gi"}})
    fungible = {"whenCanBorrow": choice}
    give(cluster, team, {}, resourceGroups=[own], cohortName=team, flavorFungibility=fungible)
    asked = stack(cluster, workers="2", nativeArm="true")
    wait_for(lambda: quota_of(cluster, f"{team}-lender").get("status", {}).get("conditions"))

    fits = not list(quota.problems(cluster.api, asked))
    assert (choice == "TryNextFlavor") == fits == admitted_beside_ray(cluster, asked, "native")
    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{team}-lender")


def admitted_beside_ray(cluster: Cluster, asked: Settings, arm: str) -> bool:
    """Make the RayCluster, which is admitted, and a run of an arm; return whether that is, too."""
    pods, labels = pods_of(asked), {QUEUE_LABEL: QUEUE}
    cluster.make_ray_cluster(ray_cluster.spec(pods.ray_cluster), labels)
    wait_for(lambda: [True] == [reserved(each) for each in workloads(cluster, "RayCluster")])
    (plan,) = [plan for plan in plan_runs(asked) if plan.arm == arm]
    job = {"metadata": {"name": arm, "labels": labels}, "spec": job_of(plan, pods.jobs)}
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)
    (admitted,) = wait_for(lambda: [each for each in map(reserved, workloads(cluster, "Job")) if each is not None])
    return bool(admitted)


def give_flavors(cluster: Cluster, name: str, cpus: dict[str, str]) -> None:
    """Let the ClusterQueue have these CPUs of these flavours, in this order, and memory enough."""
    groups = [group({flavor: {"cpu": amount, "memory": "99Gi"} for flavor, amount in cpus.items()})]
    wanted = of("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups})
    kube.apply(cluster.api, f"/apis/{API}/clusterqueues/{name}", wanted)
    wait_for(lambda: is_active(quota_of(cluster, name)))


def test_a_queue_that_is_closed_to_the_namespace_is_refused(cluster: Cluster, team: str, wording: Wording) -> None:
    """By its selector; and one that counts pods, and has too few of them."""
    give(cluster, team, {**ROOMY, "pods": "3"})
    (few,) = quota.problems(cluster.api, stack(cluster, workers="2"))
    wording("platform", str(few).replace(team, "<queue>"))

    selector = {"spec": {"namespaceSelector": {"matchLabels": {"team": "vision"}}}}
    kube.patch(cluster.api, f"/apis/{API}/clusterqueues/{team}", selector)
    (closed,) = quota.problems(cluster.api, stack(cluster))
    wording("platform", str(closed).replace(team, "<queue>").replace(cluster.namespace, "<namespace>"))


def test_a_namespace_that_the_stack_would_make_has_no_queue(cluster: Cluster, wording: Wording) -> None:
    """It is the platform's to make."""
    (refused,) = quota.problems(cluster.api, stack(cluster, namespace="not-there", createNamespace="true"))
    wording("platform", str(refused))
