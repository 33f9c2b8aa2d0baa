"""Where a real scheduler puts the project's pods on 20 nodes, and what is said of those that it cannot place."""

from collections import Counter
from typing import Any

from cli.look import failure_reason, status_view
from infra.places.cluster.api import kube, ray_scale
from infra.places.cluster.manifests import jobs, ray_cluster
from infra.places.cluster.manifests.pod_parts import RUN_LABEL, Manifest
from infra.places.cluster.manifests.pods import pods_of
from tests.golden import Wording
from tests.limits import wait_for
from tests.platform.cluster import GPU_NODES, NODE_GPUS, NODES, VALUES, Cluster, settings
from tests.unit.settings_machine import machine, parse, plan_runs

EVERYTHING = GPU_NODES * NODE_GPUS


def test_workers_without_a_gpu_are_named(cluster: Cluster, wording: Wording) -> None:
    """One more than there are GPUs: it waits, and the scheduler's reason is told. The head is on a node without."""
    fitting = GPU_NODES * NODE_GPUS
    cluster.make_ray_cluster(ray_cluster.spec(settings(fitting + 1, workerGpus="1")))
    wait_for(lambda: fitting == cluster.ray_status().get("readyWorkerReplicas"))
    (waiting,) = wait_for(lambda: [pod for pod in cluster.workers() if failure_reason.reasons([pod])])
    nodes = Counter(pod["spec"].get("nodeName") for pod in cluster.workers())
    (head,) = cluster.pods(**ray_cluster.HEAD_LABELS)

    assert "Pending (Unschedulable)" == status_view.phase(waiting)
    assert {NODE_GPUS} == {count for node, count in nodes.items() if node}
    assert head["spec"]["nodeName"].startswith("cpu")
    name = waiting["metadata"]["name"]
    wording("platform", failure_reason.reasons(cluster.pods())[0].replace(name, "<worker>"))


def test_workers_are_spread_over_the_nodes(cluster: Cluster) -> None:
    """One on each node without a GPU before one has two."""
    free = NODES - GPU_NODES
    cluster.make_ray_cluster(ray_cluster.spec(settings(free)))
    wait_for(lambda: free == cluster.ray_status().get("readyWorkerReplicas"))

    assert free == len({pod["spec"]["nodeName"] for pod in cluster.workers()})


def test_workers_that_have_to_be_spread_find_a_node_each(cluster: Cluster) -> None:
    """More than there are nodes that take them: at most two on each, and none waits for one that takes no worker."""
    free = NODES - GPU_NODES
    workers = free + GPU_NODES + 1
    cluster.make_ray_cluster(ray_cluster.spec(settings(workers, spreadWorkers="required")))
    wait_for(lambda: workers == cluster.ray_status().get("readyWorkerReplicas"))
    nodes = Counter(pod["spec"]["nodeName"] for pod in cluster.workers())

    assert free == len(nodes)
    assert 2 == max(nodes.values())


def test_a_pull_of_minutes_is_no_failure(cluster: Cluster) -> None:
    """The RayCluster is not ready, its pods say what they wait for, and nothing is said to have failed."""
    cluster.make_ray_cluster(ray_cluster.spec(settings(2, pull="600s")))
    created = "Pending (ContainerCreating)"
    wait_for(lambda: 3 == [status_view.phase(pod) for pod in cluster.pods()].count(created))

    assert "readyWorkerReplicas" not in cluster.ray_status()
    assert [] == failure_reason.reasons(cluster.pods())


def test_every_arm_has_all_gpus_in_its_turn(cluster: Cluster) -> None:
    """As many workers as there are GPUs, if Ray's are there for Ray's runs alone."""
    pods = pods_of_others(cluster, "per-run")
    nodes = Counter(pod["spec"].get("nodeName", "") for pod in pods)

    assert 1 + EVERYTHING == sum(nodes.values())
    assert all(node.startswith("gpu") for node in nodes)
    ray_scale.up(cluster.api, cluster.namespace, "ray-1", EVERYTHING)
    assert {NODE_GPUS} == set(Counter(pod["spec"]["nodeName"] for pod in cluster.workers()).values())


def test_workers_that_are_kept_hold_what_other_arms_wait_for(cluster: Cluster) -> None:
    """Where there are no more GPUs than theirs."""
    pods = pods_of_others(cluster, "kept")

    assert {None} == {pod["spec"].get("nodeName") for pod in pods}


def pods_of_others(cluster: Cluster, ray_workers: str) -> list[dict[str, Any]]:
    """The pods of baseline and then of native, beside a RayCluster of as many workers as there are GPUs."""
    values = {"workerGpus": "1", "rayWorkers": ray_workers}
    cluster.make_ray_cluster(ray_cluster.spec(settings(EVERYTHING, **values)))
    of_stack = parse({**VALUES, **values, "workers": str(EVERYTHING)}, machine(cores=64, gib=256))
    plans = {plan.arm: plan for plan in plan_runs(of_stack)}
    running = EVERYTHING if ray_workers == "kept" else None
    wait_for(lambda: cluster.pods() and running == cluster.ray_status().get("readyWorkerReplicas"))
    return [pod for arm in ("baseline", "native") for pod in run(cluster, jobs.job(plans[arm], pods_of(of_stack).jobs))]


def run(cluster: Cluster, spec: Manifest) -> list[dict[str, Any]]:
    """The pods of a Job when the scheduler has looked at each; they are gone afterwards."""
    kube.create(cluster.api, cluster.path("batch/v1/jobs"), {"metadata": {"name": "run"}, "spec": spec})
    wanted = spec.get("completions", 1)

    def seen() -> list[dict[str, Any]]:
        pods = [pod for pod in cluster.pods() if RUN_LABEL in pod["metadata"]["labels"]]
        return pods if wanted == len([pod for pod in pods if pod["status"].get("conditions")]) else []

    pods = wait_for(seen)
    kube.delete(cluster.api, cluster.path("batch/v1/jobs", "run"))
    wait_for(lambda: not [pod for pod in cluster.pods() if RUN_LABEL in pod["metadata"]["labels"]])
    return list(pods)
