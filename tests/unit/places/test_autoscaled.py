"""The wait for Ray's autoscaler, after which the next arm has its CPUs: what it stops, and when it ends."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest

from infra.places.cluster.api import idle_workers, kube, ray_scale
from infra.places.cluster.api.ray_api import ForwardedJobs, RayError
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.places.cluster.place import take_away_workers
from infra.places.cluster.ray_workers import RayWorkersProvider
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.unit.kube_api import NAMESPACE, Api, pod, serving
from tests.unit.settings_machine import machine, parse
from training.launch.ray.other_jobs import mark

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RAY = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"
STACK = "staging"
IDLE = 30
STACK_VALUES = {"target": "kubernetes", "kubeContext": "staging", "image": "registry.example.com/a:1"}


class Jobs:
    """What Ray says of its jobs, and those that it was asked to stop, which end."""

    def __init__(self) -> None:
        self.unfinished: dict[str, str] = {}
        """The owner of each."""
        self.stopped: list[str] = []
        self.answers = True

    def jobs(self) -> list[dict[str, Any]]:
        """Return them as Ray does."""
        if not self.answers:
            raise RayError("no pod of Ray's head runs")
        return [{"submission_id": name, "status": "RUNNING", "metadata": mark(owner), "entrypoint": "python train.py"}
                for name, owner in self.unfinished.items()]  # fmt: skip

    def stop(self, name: str) -> None:
        """End one."""
        self.stopped.append(name)
        del self.unfinished[name]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs of the Ray cluster."""
    there = Jobs()
    monkeypatch.setattr(ForwardedJobs, "jobs", there.jobs)
    monkeypatch.setattr(ForwardedJobs, "stop", there.stop)
    monkeypatch.setattr(idle_workers, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(idle_workers, "ASK_RAY_SECONDS", 0.2)
    monkeypatch.setattr(idle_workers, "POLL_SECONDS", 0.1)
    return there


@pytest.fixture
def cluster(tmp_path: Path, jobs: Jobs) -> Iterator[tuple[Api, str]]:
    """A Ray cluster of a head with an autoscaler, and of two workers."""
    assert jobs.answers
    with serving(tmp_path) as (api, kubeconfig):
        head = pod("head", labels=HEAD_LABELS)
        head["status"]["containerStatuses"] += [{"name": "autoscaler", "restartCount": 0, "state": {"running": {}}}]
        head["spec"]["restartPolicy"] = "Never"
        api.put("/api/v1", "pods", head, NAMESPACE)
        for name in ("worker-1", "worker-2"):
            api.put("/api/v1", "pods", pod(name, labels=WORKER_LABELS), NAMESPACE)
        spec = {
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"idleTimeoutSeconds": IDLE},
            "workerGroupSpecs": [{"replicas": 2}],
        }
        api.objects[RAY] = {"metadata": {"name": ray_cluster.NAME}, "spec": spec}
        yield api, kubeconfig


def ask_for(api: Api, workers: int) -> None:
    """Let so many workers be asked for."""
    api.objects[RAY]["spec"]["workerGroupSpecs"][0]["replicas"] = workers


def wait(kubeconfig: str) -> list[str]:
    """Wait for the end of the workers."""
    return idle_workers.wait_until_gone(kube.connect(kubeconfig), NAMESPACE, STACK, 0)


def refusal(kubeconfig: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.5) -> str:
    """What is said where the workers stay longer than that."""
    monkeypatch.setattr(ray_scale, "DOWN_SECONDS", seconds)
    with pytest.raises(ScaleError) as refused:
        wait(kubeconfig)
    return str(refused.value)


@pytest.fixture
def later() -> Iterator[Callable[[float, Callable[[], Any]], None]]:
    """Does something after so many seconds."""
    timers: list[Timer] = []

    def start(seconds: float, what: Callable[[], Any]) -> None:
        timers.append(Timer(seconds, what))
        timers[-1].start()

    yield start
    for timer in timers:
        timer.join()


def test_the_next_arm_waits_until_no_worker_is_asked_for(
    cluster: tuple[Api, str], later: Callable[[float, Callable[[], Any]], None]
) -> None:
    """Also after the last pod is gone: another would come. Nothing is changed, and the head stays."""
    api, kubeconfig = cluster
    properties = {
        "name": "ray-1", "run": "a b", "namespace": NAMESPACE, "kubeconfig": kubeconfig, "after": "uid",
        "workers": 0, "idleSeconds": 30.0, "stack": STACK,
    }  # fmt: skip
    happened: list[str] = []

    def ask_for_none() -> None:
        happened.append("none")
        ask_for(api, 0)

    def leave(*names: str) -> None:
        api.objects.pop(f"{PODS}/{names[0]}")
        happened.append(names[0])
        later(0.3, partial(leave, *names[1:]) if names[1:] else ask_for_none)

    later(0.3, partial(leave, "worker-1", "worker-2"))

    RayWorkersProvider().create(properties)

    assert ["worker-1", "worker-2", "none"] == happened
    assert [f"{PODS}/head"] == [path for path in api.objects if path.startswith(PODS)]
    assert {"GET"} == {asked.partition(" ")[0] for asked in api.asked}


def test_workers_that_stay_are_named_with_their_states(
    cluster: tuple[Api, str], jobs: Jobs, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """One that waits for a node and one that ends hold, or will hold, what the next run needs. Others' jobs are named
    with what ends them, and are not stopped."""
    api, kubeconfig = cluster
    ask_for(api, 0)
    api.objects[f"{PODS}/worker-1"]["metadata"]["deletionTimestamp"] = "2025-03-01T12:00:00Z"
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu. x"}
    api.objects[f"{PODS}/worker-2"]["status"] = {"phase": "Pending", "conditions": [unplaced]}
    jobs.unfinished["train-1"] = "somebody"

    wording("platform", refusal(kubeconfig, monkeypatch))

    assert [] == jobs.stopped


def test_workers_that_are_asked_for_and_never_come_are_said(
    cluster: tuple[Api, str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """No pod is there, and yet the next run would not be alone."""
    api, kubeconfig = cluster
    for name in ("worker-1", "worker-2"):
        del api.objects[f"{PODS}/{name}"]

    wording("platform", refusal(kubeconfig, monkeypatch))


def test_a_job_that_outlived_its_run_is_stopped(
    cluster: tuple[Api, str], jobs: Jobs, later: Callable[[float, Callable[[], Any]], None]
) -> None:
    """It would keep its workers for ever. Somebody else's goes on; a head that does not answer is asked again."""
    api, kubeconfig = cluster
    jobs.unfinished |= {"ray-1-x": STACK, "train-1": "somebody"}
    jobs.answers = False
    later(0.4, lambda: setattr(jobs, "answers", True))

    def leave() -> None:
        assert ["ray-1-x"] == jobs.stopped
        for name in ("worker-1", "worker-2"):
            del api.objects[f"{PODS}/{name}"]
        ask_for(api, 0)

    later(1.5, leave)

    assert ["ray-1-x"] == wait(kubeconfig)


def test_after_such_a_job_the_autoscaler_has_time_to_ask_once_more(
    cluster: tuple[Api, str], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so by what it read while the job was there. Without such a job there is nothing to wait for."""
    api, kubeconfig = cluster
    for name in ("worker-1", "worker-2"):
        del api.objects[f"{PODS}/{name}"]
    ask_for(api, 0)
    monkeypatch.setattr(idle_workers, "SETTLED_SECONDS", 1.0)
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr(idle_workers, "time", clock)
    took = []
    for left in ({}, {"ray-1-x": STACK}):
        jobs.unfinished = dict(left)
        slept.clear()
        wait(kubeconfig)
        took.append(sum(slept))

    assert took[0] < idle_workers.SETTLED_SECONDS <= took[1]


def test_an_autoscaler_that_ended_is_not_waited_for(
    cluster: tuple[Api, str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """The head's pod has the restart policy that KubeRay gives it: nobody starts the container again."""
    api, kubeconfig = cluster
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    api.objects[f"{PODS}/head"]["status"]["containerStatuses"][1]["state"] = state

    wording("platform", refusal(kubeconfig, monkeypatch, LONGEST_SECONDS))


@pytest.mark.parametrize(
    "spec",
    [{"enableInTreeAutoscaling": None}, {"autoscalerOptions": {"idleTimeoutSeconds": IDLE + 1}}],
    ids=["workers that are kept", "another idle time"],
)
def test_a_ray_cluster_that_the_update_replaces_is_not_waited_for(
    spec: dict[str, Any], cluster: tuple[Api, str], jobs: Jobs
) -> None:
    """Its workers stay until then: without an autoscaler for ever."""
    api, kubeconfig = cluster
    api.objects[RAY]["spec"] |= spec
    jobs.unfinished["ray-1-x"] = STACK
    values = {**STACK_VALUES, "namespace": NAMESPACE, "rayWorkers": "autoscaled", "idleSeconds": str(IDLE)}

    take_away_workers(kube.connect(kubeconfig), parse(values, machine(64, 256)))

    assert [] == jobs.stopped
