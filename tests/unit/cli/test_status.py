"""`rwi status`: what is shown of a cluster, and the line that stands where there is none."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.look import cluster, status, status_view
from cli.look.status_view import Ray, render
from cli.setup.project import ToolError
from infra.places.minikube import command
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, node, pod, serving, write_kubeconfig

NOW = datetime(2025, 3, 1, 12, 1, 30, tzinfo=UTC)
RAY_CLUSTER = {
    "metadata": {"name": "ray-training-cluster"},
    "spec": {"rayVersion": "2.60.0"},
    "status": {"state": "ready", "readyWorkerReplicas": 2, "desiredWorkerReplicas": 2},
}
RAY_NODE = {
    "node_ip": "10.244.1.5",
    "is_head_node": False,
    "state": "ALIVE",
    "resources_total": {"CPU": 1.0, "memory": 2**30},
}


def shown(*pods: dict[str, Any], ray: Ray | None = None, jobs: tuple[dict[str, Any], ...] = ()) -> str:
    """The status of a cluster with one node."""
    ray = ray or Ray(None, [], [], "there is no RayCluster yet")
    return "\n".join(render([node("one")], pods, jobs, ray, NOW))


def test_everything_is_in_its_place(wording: Wording) -> None:
    """Nodes, pods with node and phase, Ray's nodes and resources, the current run."""
    running = [{"submission_id": "ray-1-x", "status": "RUNNING"}, {"submission_id": "old", "status": "STOPPED"}]
    text = shown(
        pod("baseline-1-x", "Succeeded", state={"terminated": {"reason": "Completed"}}),
        ray=Ray(RAY_CLUSTER, [RAY_NODE], running, ""),
        jobs=(job("baseline-1-x", "baseline-1", succeeded=1), job("ray-1-x", "ray-1", active=1)),
    )

    rows = [line.split() for line in text.splitlines()]
    assert ["one", "Ready", "4", "8.0", "GiB", "v1.34.4"] in rows
    assert ["baseline-1-x", "one", "Succeeded", "0", "90", "s"] in rows
    assert ["10.244.1.5", "worker", "alive", "1", "1.0", "GiB"] in rows
    assert "ray-1-x" in text.splitlines()[-1]
    wording("status", text)


@pytest.mark.parametrize(
    ("state", "phase", "expected"),
    [
        ({"waiting": {"reason": "ImagePullBackOff"}}, "Pending", "Pending (ImagePullBackOff)"),
        ({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "Failed", "Failed (OOMKilled)"),
        ({"terminated": {"reason": "Completed"}}, "Succeeded", "Succeeded"),
        ({"running": {}}, "Running", "Running"),
    ],
)
def test_a_phase_has_its_reason(state: dict[str, Any], phase: str, expected: str) -> None:
    """A phase alone says too little to act on."""
    assert expected == status_view.phase(pod("a", phase, state=state))


def test_a_pod_that_no_node_takes_says_why() -> None:
    """It has no container yet, and a condition."""
    pending = pod("a", "Pending")
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    pending["status"] = {"phase": "Pending", "conditions": conditions}

    assert "Pending (Unschedulable)" == status_view.phase(pending)


def test_without_a_run_the_last_ones_are_counted() -> None:
    """So that "none" is told from "failed"."""
    text = shown(jobs=(job("a", "a", succeeded=1), job("b", "b", failed=1)))
    assert re.search(r"\b1 succeeded\b.*\b1 failed\b", text)


def test_ray_that_does_not_answer_is_no_error() -> None:
    """The RayCluster's own status still stands."""
    text = shown(ray=Ray(RAY_CLUSTER, [], [], "no head"))

    assert " 2.60.0\nno head" in text


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The cluster of stack `ci`, reached through the stack's own kubeconfig."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    monkeypatch.setattr("infra.places.cluster.api.kube.PROJECT", tmp_path)
    monkeypatch.setattr(command, "trouble", lambda _: "")
    with serving(tmp_path) as (served, kubeconfig):
        path = tmp_path / ".state/kubeconfig/ci"
        path.parent.mkdir(parents=True)
        path.write_text(Path(kubeconfig).read_text())
        served.put("/api/v1", "nodes", node("one"))
        served.put("/api/v1", "pods", pod("head"), NAMESPACE)
        yield served


def test_the_command_asks_the_stack_s_own_cluster(
    api: Api, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Through its kubeconfig; only read; with where the dashboard answers, and how its token is had."""
    assert 0 == status.show("ci", {"minikubeProfile": "profile"})

    text = capsys.readouterr().out
    assert api.url in text.splitlines()[0]
    assert "head  one   Running" in text
    assert "dashboard: http://127.0.0.1:30265" in text
    assert "kubectl --kubeconfig=.state/kubeconfig/ci --namespace=ray-system" in text
    wording("status", re.sub(r"\d+ d\n", "DAYS\n", text).replace(api.url, "SERVER"))
    assert {"GET"} == {line.split()[0] for line in api.asked}


@pytest.mark.usefixtures("api")
def test_a_cluster_that_is_not_made_yet_is_said_so(tmp_path: Path) -> None:
    """With the line that makes it."""
    (tmp_path / ".state/kubeconfig/ci").unlink()

    with pytest.raises(ToolError, match=r"\.state/kubeconfig/ci .*./rwi up --stack ci"):
        status.show("ci", {"minikubeProfile": "profile"})


@pytest.mark.usefixtures("api")
def test_a_cluster_that_is_down_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what Minikube knows of it, or else the address that does not answer."""
    write_kubeconfig(tmp_path / ".state/kubeconfig/ci", "http://127.0.0.1:9")
    with pytest.raises(ToolError, match=r"http://127\.0\.0\.1:9 "):
        status.show("ci", {"minikubeProfile": "test"})
    monkeypatch.setattr(command, "trouble", lambda profile: f"{profile} is stopped")
    with pytest.raises(ToolError, match="test is stopped"):
        status.show("ci", {"minikubeProfile": "test"})


def test_a_stack_without_a_cluster_is_said_so(wording: Wording) -> None:
    """With those that have one, and with what works here."""
    with pytest.raises(ToolError, match=r"stack minikube(?s:.)* \./rwi status --watch$") as refused:
        cluster.find("local", {})
    wording("status", str(refused.value))


def test_settings_that_can_t_be_used_are_said_as_at_preview() -> None:
    """All of them, with their fixes."""
    with pytest.raises(ToolError, match=r"(?s)\b2\b.*workers = x.*epochs = y"):  # not prose: keys and values
        cluster.find("ci", {"workers": "x", "epochs": "y"})


def test_a_sweep_s_stack_has_the_settings_of_its_origin() -> None:
    """And a cluster of its own."""
    found = cluster.find("sweep-ci", {})

    assert ("ray-worth-it-sweep-ci", ".state/kubeconfig/sweep-ci") == (found.name, found.kubeconfig)
    assert "0.25" == f"{found.settings.recipe.worker_cpus:g}"
