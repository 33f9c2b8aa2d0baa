"""A stack in a queue of a real Kueue's: through the real engine, with KubeRay's own operator."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube, leftover_jobs
from infra.places.cluster.job_result import start_seconds
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.jobs import job as job_of
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.places.kubernetes import quota
from tests.apiserver import control_plane
from tests.golden import Wording
from tests.platform.cluster import Cluster, until
from tests.platform.test_up_per_run import give_result, seconds_of
from tests.program.conftest import NewProject, cli, new_project  # noqa: F401 (fixtures)
from tests.program.engine import Project
from tests.unit.settings_machine import plan_runs, settings

API = "kueue.x-k8s.io/v1beta2"
QUEUE, HIGH = "training", "high"
VALUES = {
    "target": "kubernetes",
    "kubeContext": "bare",
    "image": "registry.example.com/a:1",
    "createNamespace": "false",
    "operator": "existing",
    "repeats": "1",
    "nativeArm": "false",
    "queue": QUEUE,
}
ROOMY = {"cpu": "64", "memory": "256Gi"}
WAITS_SECONDS = 4
POOL = {"test/pool": "training"}
"""What Kueue adds to the pods that it admits: their nodes' label, and a toleration."""


@pytest.fixture
def team(cluster: Cluster) -> Iterator[str]:
    """A ClusterQueue with room for everything, and the LocalQueue of the namespace; the first one's name."""
    name = f"team-{cluster.namespace}"
    flavor = of(
        "ResourceFlavor", "default", {"nodeLabels": POOL, "tolerations": [{"key": "test", "operator": "Exists"}]}
    )
    kube.apply(cluster.api, f"/apis/{API}/resourceflavors/default", flavor)
    for node in kube.items(cluster.api, "/api/v1/nodes"):
        kube.patch(cluster.api, f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": POOL}})
    kube.apply(cluster.api, f"/apis/{API}/workloadpriorityclasses/{HIGH}", of("WorkloadPriorityClass", HIGH, value=9))
    give(cluster, name, ROOMY)
    queue = of("LocalQueue", QUEUE, {"clusterQueue": name})
    kube.create(cluster.api, cluster.path(f"{API}/localqueues"), queue)
    until(lambda: quota_of(cluster, name).get("status", {}).get("conditions"))
    yield name
    kube.delete(cluster.api, cluster.path(f"{API}/localqueues", QUEUE))
    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{name}")


@pytest.fixture
def project(new_project: NewProject, cluster: Cluster, team: str) -> Project:  # noqa: F811
    """A stack in the queue, with Ray's part of a measurement."""
    if shutil.which("pulumi-resource-kubernetes") is None:
        pytest.skip("pulumi-resource-kubernetes is not on PATH")
    made = new_project()
    shutil.copy(Path(__file__).with_name("ray_runs.py"), made.folder / "__main__.py")
    made.environment["KUBECONFIG"] = cluster.kubeconfig
    made.create_stack(**VALUES, namespace=cluster.namespace)
    return made


def of(kind: str, name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One of Kueue's objects."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, **({"spec": spec} if spec else {}), **more}


def give(cluster: Cluster, name: str, amounts: dict[str, str]) -> None:
    """Let the ClusterQueue have this quota, and make it if it is not there."""
    resources = [{"name": each, "nominalQuota": amount} for each, amount in amounts.items()]
    group = {"coveredResources": [*amounts], "flavors": [{"name": "default", "resources": resources}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    wanted = {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption}
    kube.apply(cluster.api, f"/apis/{API}/clusterqueues/{name}", of("ClusterQueue", name, wanted))


def quota_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """The ClusterQueue."""
    return dict(kube.find(cluster.api, f"/apis/{API}/clusterqueues/{name}") or {})


def jobs(cluster: Cluster) -> list[dict[str, Any]]:
    """The Jobs of the namespace."""
    return kube.items(cluster.api, cluster.path("batch/v1/jobs"))


def stack(cluster: Cluster, **values: str) -> Any:
    """The settings of a stack in the queue."""
    return settings(**{**VALUES, "namespace": cluster.namespace, **values})


def test_a_run_says_how_long_it_waited(project: Project, cluster: Cluster, team: str) -> None:
    """While others have the quota: outside of the run. Another number of workers is admitted anew, without a
    conflict; and the next update changes nothing."""
    project.configure(workers="2")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "3"})  # the RayCluster's, and not the submitter's beside it
    with project.running_up() as started:
        (job,) = until(lambda: jobs(cluster), 90)
        assert job["spec"]["suspend"]
        time.sleep(WAITS_SECONDS)
        assert not jobs(cluster)[0]["status"].get("startTime")
        give(cluster, team, ROOMY)
        assert 0 == started.wait(120)
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
    until(lambda: not cluster.pods())


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
        until(lambda: [job for job in jobs(cluster) if job["status"].get("conditions")], 90)
        os.killpg(started.pid, signal.SIGKILL)
    (job,) = leftover_jobs.unfinished_jobs(cluster.api, cluster.namespace)
    access = {**os.environ, "KUBECONFIG": cluster.kubeconfig, "PATH": control_plane.search_path()}

    subprocess.run(["sh", "-c", leftover_jobs.end_line(job, cluster.namespace)], check=True, env=access)

    until(lambda: not leftover_jobs.unfinished_jobs(cluster.api, cluster.namespace))
    give(cluster, team, ROOMY)
    project.pulumi("cancel", "--yes")
    project.up()
    assert seconds_of(project)["queued"] < WAITS_SECONDS


@pytest.mark.slow
def test_a_run_that_was_preempted_is_none(project: Project, cluster: Cluster, team: str, wording: Wording) -> None:
    """Kueue lets its Job begin again when there is quota, and what that prints is no result of the run."""
    (project.folder / "pods.yaml").write_text("metadata: {annotations: {test/run: 6s}}")
    project.configure(workers="2", podTemplate="pods.yaml")
    give_result(cluster, 2)
    give(cluster, team, {**ROOMY, "cpu": "3.1"})
    with project.running_up() as started:
        until(lambda: [job for job in jobs(cluster) if job["status"].get("active")], 90)
        kube.create(cluster.api, cluster.path("batch/v1/jobs"), preemptor())
        until(lambda: [job for job in jobs(cluster) if job["metadata"]["name"] != HIGH and job["spec"]["suspend"]], 30)
        kube.delete(cluster.api, cluster.path("batch/v1/jobs", HIGH))
        assert started.wait(120)
    said = (project.folder / "up.txt").read_text()
    found = re.search(r"NoResultError: (.*)", said)
    assert found
    wording("platform", found[1])


def preemptor() -> dict[str, Any]:
    """Somebody's Job of a higher priority, which needs what a submitter has."""
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    pod = {
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": "a:1", "resources": resources, "securityContext": strict}],
    }
    template = {"metadata": {"annotations": {"test/run": "60s"}}, "spec": pod}
    labels = {QUEUE_LABEL: QUEUE, "kueue.x-k8s.io/priority-class": HIGH}
    return {"metadata": {"name": HIGH, "labels": labels}, "spec": {"suspend": True, "template": template}}


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
    until(lambda: "False" == kube.get(cluster.api, of_namespace)["status"]["conditions"][0]["status"])
    (held,) = quota.problems(cluster.api, stack(cluster))
    wording("platform", str(held).replace(team, "<queue>"))

    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{team}")
    until(lambda: not quota_of(cluster, team))
    (gone,) = quota.problems(cluster.api, stack(cluster))
    wording("platform", str(gone).replace(team, "<queue>"))


def test_the_start_of_the_ray_cluster_holds_no_queue(cluster: Cluster, team: str) -> None:
    """It begins when the queue admits it."""
    give(cluster, team, {**ROOMY, "cpu": "1"})
    cluster.make_ray_cluster(ray_cluster.spec(pods_of(stack(cluster, workers="1")).ray_cluster), {QUEUE_LABEL: QUEUE})
    time.sleep(2 * WAITS_SECONDS)
    assert not cluster.pods()
    give(cluster, team, ROOMY)
    until(lambda: 1 == cluster.ray_status().get("readyWorkerReplicas"))
    path = cluster.path("ray.io/v1/rayclusters", ray_cluster.NAME)
    created = datetime.fromisoformat(kube.get(cluster.api, path)["metadata"]["creationTimestamp"])

    waited = (datetime.now(UTC) - created).total_seconds()
    assert until(lambda: start_seconds(kube.get(cluster.api, path))) <= waited - 2 * WAITS_SECONDS + 2


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
        until(lambda: 2 == cluster.ray_status().get("readyWorkerReplicas"))
        (native,) = [plan for plan in plan_runs(asked) if plan.arm == "native"]
        job = {"metadata": {"name": "native", "labels": {QUEUE_LABEL: QUEUE}}, "spec": job_of(native, pods.jobs)}
        kube.create(cluster.api, cluster.path("batch/v1/jobs"), job)
        until(lambda: [False] == [reserved(each) for each in workloads(cluster, "Job")])
        cluster.remove()


def give_flavors(cluster: Cluster, name: str, cpus: dict[str, str]) -> None:
    """Let the ClusterQueue have these CPUs of these flavours, in this order, and memory enough."""
    flavors = [
        {"name": flavor, "resources": [{"name": each, "nominalQuota": amount} for each, amount in amounts]}
        for flavor, cpu in cpus.items()
        for amounts in [(("cpu", cpu), ("memory", "99Gi"))]
    ]
    group = {"coveredResources": ["cpu", "memory"], "flavors": flavors}
    wanted = {"namespaceSelector": {}, "resourceGroups": [group]}
    kube.apply(cluster.api, f"/apis/{API}/clusterqueues/{name}", of("ClusterQueue", name, wanted))


def workloads(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """The Workloads of objects of a kind."""
    found = kube.items(cluster.api, cluster.path(f"{API}/workloads"))
    return [each for each in found if each["metadata"]["ownerReferences"][0]["kind"] == kind]


def reserved(workload: dict[str, Any]) -> bool | None:
    """Whether it has its quota; None if Kueue has not tried."""
    said = {each["type"]: each["status"] for each in workload.get("status", {}).get("conditions", ())}
    return said["QuotaReserved"] == "True" if "QuotaReserved" in said else None


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
    values = {**VALUES, "namespace": "not-there", "createNamespace": "true"}
    (refused,) = quota.problems(cluster.api, settings(**values))
    wording("platform", str(refused))
