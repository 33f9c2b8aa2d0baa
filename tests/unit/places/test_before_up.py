"""What is said and refused before an update makes anything, and how little a preview asks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from infra.places.cluster import before_up, helm_release, kube, operator_spec
from infra.places.kubernetes import kubeconfig
from infra.programs import Failure
from infra.settings.settings import ClusterSettings, Settings
from tests.unit.kube_api import NAMESPACE, Api, job, node, serving, trust_without_certificate, write_kubeconfig
from tests.unit.settings_machine import machine, settings
from training.machine import machine_lock


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program logs."""
    lines: list[str] = []
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


def existing(**values: str) -> Settings:
    """A stack of target kubernetes."""
    return settings(target="kubernetes", image="registry.example.com/a:1", kubeContext="test", **values)


def test_the_cluster_is_named_before_it_is_touched(api: Api, said: list[str]) -> None:
    """With context and address: the kubeconfig's current context may have changed since yesterday."""
    before_up.check_existing(existing())

    (line,) = said
    assert line.startswith("info: the cluster: context test of ")
    assert line.endswith(f"at {api.url}")


def test_a_preview_asks_only_whether_the_cluster_answers(
    api: Api, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names it all the same; what does not fit is for `up` to refuse."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    before_up.check_existing(existing(workers="50", globalBatchSize="50"))

    assert ["GET /version"] == api.asked
    (line,) = said
    assert api.url in line


def test_a_preview_says_that_the_stack_s_minikube_does_not_answer(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the stack's own kubeconfig, and goes on; without one there is nothing to ask."""
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    for module in (before_up, kube):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    before_up.check_minikube(minikube())
    assert [] == said
    own = tmp_path / kubeconfig.path_of(minikube().stack)
    own.parent.mkdir(parents=True)
    write_kubeconfig(own, "http://127.0.0.1:9")
    before_up.check_minikube(minikube())

    (line,) = said
    assert line.startswith("warn: http://127.0.0.1:9 does not answer")
    assert "This preview shows the cluster as it was last seen" in line
    assert "PULUMI_K8S_CLIENT_TIMEOUT=4 pulumi preview" in line


def test_a_preview_needs_no_kubeconfig(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull request's runner has none; an update fails without, and says so."""
    nowhere = replace(existing(), cluster=replace(cluster_of(existing()), kubeconfig=f"{tmp_path}/none"))
    with pytest.raises(pulumi.RunError, match=r"(?s)nothing was changed.*no kubeconfig .*none.*pulumi config set"):
        before_up.check_existing(nowhere)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    before_up.check_existing(nowhere)

    (line,) = said
    assert line.startswith(
        f"warn: the cluster is not known here, and `up` would be refused: there is no kubeconfig {tmp_path}"
    )


def test_a_kubeconfig_that_is_broken_is_refused_at_preview(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there and can't be meant so. A context that is not there may be another machine's."""
    path = write_kubeconfig(tmp_path / "config", "http://10.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    with pytest.raises(pulumi.RunError, match=r"(?s)nothing was changed.*https:// is allowed"):
        before_up.check_existing(existing())
    before_up.check_existing(replace(existing(), cluster=replace(cluster_of(existing()), kube_context="none")))

    assert ["warn"] == [line.partition(":")[0] for line in said]


def cluster_of(found: Settings) -> ClusterSettings:
    """The cluster's settings, which are there."""
    assert found.cluster
    return found.cluster


@pytest.mark.usefixtures("api")
def test_what_stands_in_the_way_is_refused_all_at_once(said: list[str]) -> None:
    """Before anything is made."""
    wanted = existing(workers="50", globalBatchSize="50", operator="existing")
    with pytest.raises(pulumi.RunError, match=r"(?s)nothing was changed.*no KubeRay operator.*50 workers, do not fit"):
        before_up.check_existing(wanted)


@pytest.mark.usefixtures("api")
def test_permission_makes_a_warning_of_what_does_not_fit(said: list[str]) -> None:
    """It is an estimate: what else runs there is not known. What is not there stays refused."""
    before_up.check_existing(existing(workers="50", globalBatchSize="50", allowOversubscription="true"))

    assert "warn: the pods of baseline, native, ray" in said[1]
    with pytest.raises(pulumi.RunError, match="no KubeRay operator"):
        before_up.check_existing(existing(allowOversubscription="true", operator="existing"))


def minikube(**values: str) -> Settings:
    """A stack of target minikube, on a machine that holds it."""
    return settings(machine(64, 256, "ci"), target="minikube", **values)


def test_a_minikube_in_trouble_is_refused(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone, stopped, or not to be asked: a message and no traceback. A preview does not look."""
    monkeypatch.setattr(before_up, "trouble", lambda profile: f"{profile} is gone")
    with pytest.raises(pulumi.RunError, match="ray-worth-it-ci is gone"):
        before_up.check_minikube(minikube())

    def fail(_: str) -> str:
        raise Failure("the Docker daemon does not answer")

    monkeypatch.setattr(before_up, "trouble", fail)
    with pytest.raises(pulumi.RunError, match="daemon does not answer"):
        before_up.check_minikube(minikube())
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    before_up.check_minikube(minikube())

    assert [] == said


def test_a_minikube_update_has_the_machine_to_itself_and_a_preview_asks_for_nothing(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain `pulumi up` too: its runs are pods of this machine. What is in the lock's place is a message."""
    monkeypatch.setattr(before_up, "trouble", lambda _: "")
    monkeypatch.setattr(before_up, "PROJECT", tmp_path)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    before_up.check_minikube(minikube())
    free = machine_lock.take_name(machine_lock.NAME)
    assert not isinstance(free, machine_lock.Holder)
    free.close()
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    before_up.check_minikube(minikube())

    assert isinstance(machine_lock.take_name(machine_lock.NAME), machine_lock.Holder)

    def refuse(_: object) -> None:
        raise machine_lock.LockError("it is a folder: remove it")

    monkeypatch.setattr(machine_lock, "take", refuse)
    with pytest.raises(pulumi.RunError, match="it is a folder: remove it"):
        before_up.check_minikube(minikube())


def test_what_a_killed_update_left_is_cleared(
    api: Api, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on, a release that is pending; a cluster that is not made yet has neither."""
    marked: list[tuple[str, str]] = []

    def mark(_: object, namespace: str, release: str) -> list[str]:
        marked.append((namespace, release))
        return ["sh.helm.release.v1.kuberay-operator.v1"]

    monkeypatch.setattr(before_up, "trouble", lambda _: "")
    monkeypatch.setattr(before_up, "PROJECT", tmp_path)
    monkeypatch.setattr("infra.places.cluster.kube.PROJECT", tmp_path)
    monkeypatch.setattr(helm_release, "mark_failed", mark)
    before_up.check_minikube(minikube(minikubeProfile="test"))
    path = tmp_path / kubeconfig.path_of("ci")
    path.parent.mkdir(parents=True)
    path.write_bytes((tmp_path / "kubeconfig").read_bytes())
    api.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", active=1), NAMESPACE)
    before_up.check_minikube(minikube(minikubeProfile="test"))

    assert [(NAMESPACE, operator_spec.RELEASE)] == marked
    assert [
        "info: ended what an interrupted update left running: ray-1-x",
        "info: an interrupted installation of the operator is made again",
    ] == [line.partition(" (")[0] for line in said]


@pytest.mark.parametrize(("started", "refused"), [(True, True), (False, False)])
def test_a_minikube_that_does_not_answer(
    started: bool, refused: bool, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was made is refused; one that is half made is for this update to make."""
    monkeypatch.setattr(before_up, "trouble", lambda _: "")
    monkeypatch.setattr(before_up, "started", lambda _: started)
    monkeypatch.setattr(before_up, "PROJECT", tmp_path)
    monkeypatch.setattr("infra.places.cluster.kube.PROJECT", tmp_path)
    path = tmp_path / kubeconfig.path_of("ci")
    path.parent.mkdir(parents=True)
    write_kubeconfig(path, "http://127.0.0.1:9")
    wanted = minikube(minikubeProfile="test")

    if refused:
        with pytest.raises(pulumi.RunError, match=r"127\.0\.0\.1:9 does not answer"):
            before_up.check_minikube(wanted)
    else:
        before_up.check_minikube(wanted)
        assert ["debug"] == [line.partition(":")[0] for line in said]
