"""What is said and refused before an update makes anything, and how little a preview asks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import own_state
from infra.places.cluster.api import helm_release, kube, ray_api
from infra.places.cluster.manifests import operator
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.places.kubernetes.place import ExistingCluster
from infra.places.minikube import command, place
from infra.places.minikube.place import MinikubePlace
from infra.programs import ProgramError
from infra.settings.cluster import ClusterSettings
from infra.settings.settings import Settings
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, node, serving, trust_without_certificate, write_kubeconfig
from tests.unit.settings_machine import machine, settings
from training.machine import machine_lock


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program logs."""
    lines: list[str] = []
    monkeypatch.setattr(own_state, "resources", dict)
    for level in ("info", "warn", "debug"):
        monkeypatch.setattr(pulumi.log, level, lambda text, level=level: lines.append(f"{level}: {text}"))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    return lines


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster of two nodes, of the standard kubeconfig."""
    with serving(tmp_path) as (served, path):
        trust_without_certificate(monkeypatch)
        monkeypatch.setenv("KUBECONFIG", path)
        for name in ("one", "two"):
            served.put("/api/v1", "nodes", node(name))
        yield served


def plain(text: str, url: str = "http://127.0.0.1:9") -> str:
    """The text whatever port is free."""
    return text.replace(url, "SERVER")


def existing(**values: str) -> Settings:
    """A stack of target kubernetes."""
    return settings(target="kubernetes", image="registry.example.com/a:1", kubeContext="test", **values)


def test_the_cluster_is_named_before_it_is_touched(api: Api, said: list[str], wording: Wording) -> None:
    """With context and address: the kubeconfig's current context may have changed since yesterday."""
    ExistingCluster().survey(existing())

    (line,) = said
    assert line.startswith("info: ")
    assert line.endswith(f"at {api.url}")
    wording("cluster", plain(line, api.url))


def test_a_preview_asks_whether_the_cluster_answers_and_what_its_namespace_lets_in(
    api: Api, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names it all the same; whether nodes have room is for `up` to find."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    ExistingCluster().survey(existing(workers="50", globalBatchSize="50"))

    of_namespace = [f"GET /api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("resourcequotas", "limitranges")]
    assert ["GET /version", *of_namespace] == api.asked
    (line,) = said
    assert api.url in line


def test_a_preview_warns_of_a_quota_and_up_refuses_it(
    api: Api, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is created: the runs would wait for pods that never come."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    api.put("/api/v1", "resourcequotas", quota, NAMESPACE)
    with pytest.raises(pulumi.RunError, match="the quota small"):
        ExistingCluster().survey(existing())
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    ExistingCluster().survey(existing())

    assert "warn" in [line.partition(":")[0] for line in said if "the quota small" in line]


def test_a_preview_says_that_the_stack_s_minikube_does_not_answer(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """By the stack's own kubeconfig, and goes on; without one there is nothing to ask."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    for module in (place, kube):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    MinikubePlace().survey(minikube())
    assert [] == said
    own = tmp_path / kube.own_path(minikube().stack)
    own.parent.mkdir(parents=True)
    write_kubeconfig(own, "http://127.0.0.1:9")
    MinikubePlace().survey(minikube())

    (line,) = said
    assert line.startswith("warn: http://127.0.0.1:9 ")
    wording("minikube", plain(line))
    assert "PULUMI_K8S_CLIENT_TIMEOUT=4 pulumi preview" in line


def test_a_preview_needs_no_kubeconfig(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """A pull request's runner has none; an update fails without, and says so."""
    nowhere = replace(existing(), cluster=replace(cluster_of(existing()), kubeconfig=f"{tmp_path}/none"))
    with pytest.raises(pulumi.RunError, match=rf"(?s){tmp_path}/none.*pulumi config set") as error:
        ExistingCluster().survey(nowhere)
    wording("cluster", str(error.value), "an update without its kubeconfig")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    ExistingCluster().survey(nowhere)

    (line,) = said
    assert line.startswith("warn: ")
    wording("cluster", line, "a preview without its kubeconfig")


def test_a_kubeconfig_that_is_broken_is_refused_at_preview(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """It is there and can't be meant so. A context that is not there may be another machine's."""
    path = write_kubeconfig(tmp_path / "config", "http://10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    with pytest.raises(pulumi.RunError, match="https://") as error:
        ExistingCluster().survey(existing())
    wording("cluster", str(error.value))
    ExistingCluster().survey(replace(existing(), cluster=replace(cluster_of(existing()), kube_context="none")))

    assert ["warn"] == [line.partition(":")[0] for line in said]


def cluster_of(found: Settings) -> ClusterSettings:
    """The cluster's settings, which are there."""
    assert found.cluster
    return found.cluster


@pytest.mark.usefixtures("api")
def test_what_stands_in_the_way_is_refused_all_at_once(said: list[str], wording: Wording) -> None:
    """Before anything is made."""
    wanted = existing(workers="50", globalBatchSize="50", operator="existing")
    with pytest.raises(pulumi.RunError, match="set operator install") as error:
        ExistingCluster().survey(wanted)
    assert "pulumi config set allowOversubscription true" in str(error.value)
    wording("cluster", str(error.value))


@pytest.mark.usefixtures("api")
def test_workers_that_are_too_large_are_refused_with_the_largest_that_fit(said: list[str]) -> None:
    """As a line that is accepted; and never more memory than was asked for."""
    with pytest.raises(pulumi.RunError) as refused:
        ExistingCluster().survey(existing(workerCpus="40", workerMemory="1Gi"))
    (line,) = [line.strip() for line in str(refused.value).splitlines() if "workerCpus" in line]

    assert line.endswith("&& pulumi config set workerMemory 1Gi")
    values = {words[3]: words[4] for words in map(str.split, line.split(" && "))}
    ExistingCluster().survey(existing(**values))
    assert said[-1].startswith("info: the cluster")


@pytest.mark.usefixtures("api")
def test_permission_makes_a_warning_of_what_does_not_fit(said: list[str]) -> None:
    """It is an estimate: what else runs there is not known. What is not there stays refused."""
    ExistingCluster().survey(existing(workers="50", globalBatchSize="50", allowOversubscription="true"))

    assert said[1].startswith("warn: ")
    assert "baseline, native, ray" in said[1]
    with pytest.raises(pulumi.RunError, match="set operator install"):
        ExistingCluster().survey(existing(allowOversubscription="true", operator="existing"))


def minikube(**values: str) -> Settings:
    """A stack of target minikube, on a machine that holds it."""
    return settings(machine(64, 256, "ci"), target="minikube", **values)


def test_a_minikube_in_trouble_is_refused(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone, stopped, or not to be asked: a message and no traceback. A preview does not look."""
    monkeypatch.setattr(command, "trouble", lambda profile: f"{profile} is gone")
    with pytest.raises(pulumi.RunError, match="ray-worth-it-ci is gone"):
        MinikubePlace().survey(minikube())

    def fail(_: str) -> str:
        raise ProgramError("no daemon")

    monkeypatch.setattr(command, "trouble", fail)
    with pytest.raises(pulumi.RunError, match="no daemon"):
        MinikubePlace().survey(minikube())
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    MinikubePlace().survey(minikube())

    assert [] == said


def test_a_minikube_update_has_the_machine_to_itself_and_a_preview_asks_for_nothing(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain `pulumi up` too: its runs are pods of this machine. What is in the lock's place is a message."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    MinikubePlace().survey(minikube())
    free = machine_lock.take_name(machine_lock.NAME)
    assert not isinstance(free, machine_lock.Holder)
    free.close()
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    MinikubePlace().survey(minikube())

    assert isinstance(machine_lock.take_name(machine_lock.NAME), machine_lock.Holder)

    def refuse(_: object) -> None:
        raise machine_lock.LockError("a folder")

    monkeypatch.setattr(machine_lock, "take", refuse)
    with pytest.raises(pulumi.RunError, match="a folder"):
        MinikubePlace().survey(minikube())


def test_what_a_killed_update_left_is_cleared(
    api: Api, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """A run that goes on, a release that is pending; a cluster that is not made yet has neither."""
    marked: list[tuple[str, str]] = []

    def mark(_: object, namespace: str, release: str) -> list[str]:
        marked.append((namespace, release))
        return ["sh.helm.release.v1.kuberay-operator.v1"]

    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr("infra.places.cluster.api.kube.PROJECT", tmp_path)
    monkeypatch.setattr(helm_release, "mark_failed", mark)
    MinikubePlace().survey(minikube(minikubeProfile="test"))
    path = tmp_path / kube.own_path("ci")
    path.parent.mkdir(parents=True)
    path.write_bytes((tmp_path / "kubeconfig").read_bytes())
    api.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", active=1), NAMESPACE)
    MinikubePlace().survey(minikube(minikubeProfile="test"))

    assert [(NAMESPACE, operator.RELEASE)] == marked
    assert ["info", "info"] == [line.partition(":")[0] for line in said]
    wording("minikube", "\n".join(said))


def test_a_namespace_that_the_stack_made_is_not_given_up_on_minikube_either(
    api: Api, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Refused before a run is ended; one that somebody else made there may be used."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr(kube, "PROJECT", tmp_path)
    own = tmp_path / kube.own_path("ci")
    own.parent.mkdir(parents=True)
    own.write_bytes((tmp_path / "kubeconfig").read_bytes())
    wanted = minikube(minikubeProfile="test", createNamespace="false")
    api.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})

    with pytest.raises(pulumi.RunError, match="set createNamespace true") as error:
        MinikubePlace().survey(wanted)
    wording("minikube", str(error.value))
    api.objects[f"/api/v1/namespaces/{NAMESPACE}"]["metadata"]["labels"] = {}
    assert MinikubePlace().site(wanted) == MinikubePlace().survey(wanted)

    assert not [line for line in api.asked if not line.startswith("GET")]
    assert [] == said


@pytest.mark.parametrize(("started", "refused"), [(True, True), (False, False)])
def test_a_minikube_that_does_not_answer(
    started: bool, refused: bool, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was made is refused; one that is half made is for this update to make."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(command, "started", lambda _: started)
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr("infra.places.cluster.api.kube.PROJECT", tmp_path)
    path = tmp_path / kube.own_path("ci")
    path.parent.mkdir(parents=True)
    write_kubeconfig(path, "http://127.0.0.1:9")
    wanted = minikube(minikubeProfile="test")

    if refused:
        with pytest.raises(pulumi.RunError, match=r"127\.0\.0\.1:9"):
            MinikubePlace().survey(wanted)
    else:
        MinikubePlace().survey(wanted)
        assert ["debug"] == [line.partition(":")[0] for line in said]


THEIRS = [{"submission_id": "train-1", "status": "RUNNING", "entrypoint": "python train.py"}]


def test_an_update_beside_somebody_s_ray_job_is_refused_on_minikube(
    api: Api, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Before a run is ended, or measured beside it; with the line that ends the job."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda *_: THEIRS)
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr(kube, "PROJECT", tmp_path)
    own = tmp_path / kube.own_path("ci")
    own.parent.mkdir(parents=True)
    own.write_bytes((tmp_path / "kubeconfig").read_bytes())
    api.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", active=1), NAMESPACE)

    with pytest.raises(pulumi.RunError, match=r"\./rwi jobs stop train-1 --stack ci") as error:
        MinikubePlace().survey(minikube(minikubeProfile="test"))
    wording("minikube", str(error.value))

    assert not [line for line in api.asked if not line.startswith("GET")]
    assert [] == said


def test_a_namespace_that_an_update_leaves_may_have_somebody_s_ray_job(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update would delete it there; the settings name another namespace by now."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    monkeypatch.setattr(place, "PROJECT", tmp_path)
    monkeypatch.setattr(kube, "PROJECT", tmp_path)
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda _, namespace, __: THEIRS if namespace == "before" else [])
    own = tmp_path / kube.own_path("ci")
    own.parent.mkdir(parents=True)
    own.write_bytes((tmp_path / "kubeconfig").read_bytes())
    wanted = minikube(minikubeProfile="test")
    assert MinikubePlace().site(wanted) == MinikubePlace().survey(wanted)

    api.put("/api/v1", "pods", {**HEAD, "metadata": {**HEAD["metadata"], "namespace": "before"}}, "before")
    with pytest.raises(pulumi.RunError, match=r"\./rwi jobs stop train-1 --stack ci") as error:
        MinikubePlace().survey(wanted)
    assert "pulumi config set namespace before" in str(error.value)


HEAD: dict[str, Any] = {
    "metadata": {"name": "head-1", "labels": {"ray.io/cluster": "ray-training-cluster", "ray.io/node-type": "head"}},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize("ready", [True, False])
def test_a_head_that_is_ready_and_can_t_be_asked_may_have_somebody_s_job(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: bool, wording: Wording
) -> None:
    """An update would end it. After a fault no head is ready, and nothing runs: the update is what mends that."""
    monkeypatch.setattr(ray_api, "PAUSE_SECONDS", 0)
    status = {**HEAD["status"], "conditions": [{"type": "Ready", "status": str(ready)}]}
    api.put("/api/v1", "pods", {**HEAD, "status": status}, NAMESPACE)
    asked = kube.connect(str(tmp_path / "kubeconfig"))

    if ready:
        with pytest.raises(ray_api.RayError, match=r"kubeconfig/ci\b.*\bpod head-1") as error:
            ray_api.jobs_of_others(asked, NAMESPACE, "ci")
        wording("cluster", plain(str(error.value), api.url))
    else:
        assert [] == ray_api.jobs_of_others(asked, NAMESPACE, "ci")


@pytest.mark.usefixtures("api")
def test_an_update_beside_somebody_s_ray_job_is_refused_elsewhere(
    said: list[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With all else that stands in the way."""
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda *_: THEIRS)

    with pytest.raises(pulumi.RunError, match=r"\./rwi jobs stop train-1") as error:
        ExistingCluster().survey(existing())
    wording("cluster", str(error.value))
