"""The wait for Ray's autoscaler, after which the next arm has its CPUs: what it stops, and when it ends."""

from typing import Any

import pytest

from infra.places.cluster.api import idle_workers, ray_scale
from infra.places.cluster.api.ray_api import ForwardedJobs, RayError
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS, WORKER_LABELS
from infra.places.cluster.place import take_away_workers
from infra.places.cluster.ray_workers import RayWorkersProvider
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, pod
from tests.unit.places.clock import Clock
from tests.unit.settings_machine import existing, machine
from training.launch.ray.other_jobs import mark

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WORKERS = ("worker-1", "worker-2")
RAY = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"
STACK = "staging"
IDLE = 30


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
    return there


@pytest.fixture(autouse=True)
def cluster(api: Api, jobs: Jobs, clock: Clock) -> None:
    """A Ray cluster of a head with an autoscaler, and of two workers. Who waits for it is given a clock."""
    assert jobs.answers
    assert not clock.now
    head = pod("head", labels=HEAD_LABELS)
    head["status"]["containerStatuses"] += [{"name": "autoscaler", "restartCount": 0, "state": {"running": {}}}]
    head["spec"]["restartPolicy"] = "Never"
    for each in (head, *(pod(name, labels=WORKER_LABELS) for name in WORKERS)):
        api.put("/api/v1", "pods", each, NAMESPACE)
    spec = {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"idleTimeoutSeconds": IDLE},
        "workerGroupSpecs": [{"replicas": 2}],
    }
    api.objects[RAY] = {"metadata": {"name": ray_cluster.NAME}, "spec": spec}


def ask_for_none(api: Api) -> None:
    """Let no worker be asked for."""
    api.objects[RAY]["spec"]["workerGroupSpecs"][0]["replicas"] = 0


def remove(api: Api, *names: str) -> None:
    """Let these workers' pods be gone."""
    for name in names or WORKERS:
        del api.objects[f"{PODS}/{name}"]


def wait(client: Any) -> list[str]:
    """Wait for the end of the workers."""
    return idle_workers.wait_until_gone(client, NAMESPACE, STACK, 0)


def refusal(client: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said where the workers stay longer than half a second."""
    monkeypatch.setattr(ray_scale, "DOWN_SECONDS", 0.5)
    with pytest.raises(ScaleError) as refused:
        wait(client)
    return str(refused.value)


def test_the_next_arm_waits_until_no_worker_is_asked_for(api: Api, kubeconfig: str, clock: Clock) -> None:
    """Also after the last pod is gone: another would come. Nothing is changed, and the head stays."""
    properties = {
        "name": "ray-1", "run": "a b", "namespace": NAMESPACE, "kubeconfig": kubeconfig, "after": "uid",
        "workers": 0, "idleSeconds": 30.0, "stack": STACK,
    }  # fmt: skip
    clock.at(2, lambda: remove(api, "worker-1"))
    clock.at(4, lambda: remove(api, "worker-2"))
    clock.at(6, lambda: ask_for_none(api))

    RayWorkersProvider().create(properties)

    assert 6 == clock.now
    assert [f"{PODS}/head"] == [path for path in api.objects if path.startswith(PODS)]
    assert {"GET"} == {asked.partition(" ")[0] for asked in api.asked}


def test_workers_that_stay_are_named_with_their_states(
    api: Api, client: Any, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """One that waits for a node and one that ends hold, or will hold, what the next run needs. Others' jobs are named
    with what ends them, and are not stopped."""
    ask_for_none(api)
    api.objects[f"{PODS}/worker-1"]["metadata"]["deletionTimestamp"] = "2025-03-01T12:00:00Z"
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu. x"}
    api.objects[f"{PODS}/worker-2"]["status"] = {"phase": "Pending", "conditions": [unplaced]}
    jobs.unfinished["train-1"] = "somebody"

    wording("platform", refusal(client, monkeypatch))

    assert [] == jobs.stopped


def test_workers_that_are_asked_for_and_never_come_are_said(
    api: Api, client: Any, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """No pod is there, and yet the next run would not be alone."""
    remove(api)

    wording("platform", refusal(client, monkeypatch))


def test_an_autoscaler_that_ended_is_not_waited_for(api: Api, client: Any, clock: Clock, wording: Wording) -> None:
    """The head's pod has the restart policy that KubeRay gives it: nobody starts the container again."""
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    api.objects[f"{PODS}/head"]["status"]["containerStatuses"][1]["state"] = state

    with pytest.raises(ScaleError) as refused:
        wait(client)

    assert not clock.now
    wording("platform", str(refused.value))


def test_a_job_that_outlived_its_run_is_stopped(api: Api, client: Any, jobs: Jobs, clock: Clock) -> None:
    """It would keep its workers for ever. Somebody else's goes on; a head that does not answer is asked again."""
    jobs.unfinished |= {"ray-1-x": STACK, "train-1": "somebody"}
    jobs.answers = False
    clock.at(4, lambda: setattr(jobs, "answers", True))

    def leave() -> None:
        assert ["ray-1-x"] == jobs.stopped
        remove(api)
        ask_for_none(api)

    clock.at(8, leave)

    assert ["ray-1-x"] == wait(client)


def test_after_such_a_job_the_autoscaler_has_time_to_ask_once_more(
    api: Api, client: Any, jobs: Jobs, clock: Clock
) -> None:
    """It does so by what it read while the job was there. Without such a job there is nothing to wait for."""
    remove(api)
    ask_for_none(api)
    wait(client)
    assert not clock.now
    jobs.unfinished = {"ray-1-x": STACK}
    wait(client)
    assert idle_workers.SETTLED_SECONDS <= clock.now


@pytest.mark.parametrize(
    "spec",
    [{"enableInTreeAutoscaling": None}, {"autoscalerOptions": {"idleTimeoutSeconds": IDLE + 1}}],
    ids=["workers that are kept", "another idle time"],
)
def test_a_ray_cluster_that_the_update_replaces_is_not_waited_for(
    spec: dict[str, Any], api: Api, client: Any, jobs: Jobs
) -> None:
    """Its workers stay until then: without an autoscaler for ever."""
    api.objects[RAY]["spec"] |= spec
    jobs.unfinished["ray-1-x"] = STACK

    values = {"namespace": NAMESPACE, "rayWorkers": "autoscaled", "idleSeconds": str(IDLE)}
    take_away_workers(client, existing(machine(64, 256), **values))

    assert [] == jobs.stopped
