"""What is said and refused before an update makes anything, and how little a preview asks."""

import re
from collections.abc import Iterator
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
from infra.settings.settings import Settings
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api, job, node, serving, trust_without_certificate, write_kubeconfig
from tests.unit.settings_machine import existing, machine, settings
from training.machine import machine_lock

NOWHERE = "http://127.0.0.1:9"
STOP = r"\./rwi jobs stop train-1"
THEIRS = [{"submission_id": "train-1", "status": "RUNNING", "entrypoint": "python train.py"}]
HEAD: dict[str, Any] = {
    "metadata": {"name": "head-1", "labels": {"ray.io/cluster": "ray-training-cluster", "ray.io/node-type": "head"}},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


class Said(list[str]):
    """What the program logs, each line with its level first, in an update or a preview."""

    is_preview = False

    @property
    def levels(self) -> list[str]:
        """Of each line."""
        return [line.partition(":")[0] for line in self]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """Nothing yet, in an update."""
    lines = Said()
    monkeypatch.setattr(own_state, "resources", dict)
    for level in ("info", "warn", "debug"):
        monkeypatch.setattr(pulumi.log, level, lambda text, level=level: lines.append(f"{level}: {text}"))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: lines.is_preview)
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


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a Minikube stack's own kubeconfig, which is not there yet. Minikube is in no trouble."""
    monkeypatch.setattr(command, "trouble", lambda _: "")
    for module in (place, kube):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    path = tmp_path / kube.own_path("ci")
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def made(api: Api, own: Path) -> Api:
    """The cluster that is that stack's Minikube."""
    write_kubeconfig(own, api.url)
    return api


def plain(text: str, url: str = NOWHERE) -> str:
    """The text whatever port is free."""
    return text.replace(url, "SERVER")


def minikube(**values: str) -> Settings:
    """A stack of target minikube, on a machine that holds it."""
    return settings(machine(64, 256, "ci"), target="minikube", **values)


def of_profile(**values: str) -> Settings:
    """One whose cluster is that of the context of the tests."""
    return minikube(minikubeProfile="test", **values)


def refusal(found: ExistingCluster | MinikubePlace, asked: Settings, says: str) -> str:
    """What an update is refused with, in which that has to be."""
    with pytest.raises(pulumi.RunError) as error:
        found.survey(asked)
    assert re.search(says, str(error.value), re.DOTALL)
    return str(error.value)


def changes(api: Api) -> list[str]:
    """What was asked of a cluster that changes something."""
    return [line for line in api.asked if not line.startswith("GET")]


def test_the_cluster_is_named_before_it_is_touched(api: Api, said: Said, wording: Wording) -> None:
    """With context and address: the kubeconfig's current context may have changed since yesterday."""
    ExistingCluster().survey(existing())

    (line,) = said
    assert line.startswith("info: ")
    assert line.endswith(f"at {api.url}")
    wording("cluster", plain(line, api.url))


def test_a_preview_asks_whether_the_cluster_answers_and_what_its_namespace_lets_in(api: Api, said: Said) -> None:
    """It names it all the same; whether nodes have room is for `up` to find."""
    said.is_preview = True
    ExistingCluster().survey(existing(workers="50", globalBatchSize="50"))

    of_namespace = [f"GET /api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("resourcequotas", "limitranges")]
    assert ["GET /version", *of_namespace] == api.asked
    (line,) = said
    assert api.url in line


def test_a_preview_warns_of_a_quota_and_up_refuses_it(api: Api, said: Said) -> None:
    """Before anything is created: the runs would wait for pods that never come."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    api.put("/api/v1", "resourcequotas", quota, NAMESPACE)
    refusal(ExistingCluster(), existing(), "the quota small")
    said.is_preview = True
    ExistingCluster().survey(existing())

    assert "warn" in [line.partition(":")[0] for line in said if "the quota small" in line]


def test_a_preview_says_that_the_stack_s_minikube_does_not_answer(own: Path, said: Said, wording: Wording) -> None:
    """By the stack's own kubeconfig, and goes on; without one there is nothing to ask."""
    said.is_preview = True
    MinikubePlace().survey(minikube())
    assert [] == said
    write_kubeconfig(own, NOWHERE)
    MinikubePlace().survey(minikube())

    (line,) = said
    assert line.startswith(f"warn: {NOWHERE} ")
    wording("minikube", plain(line))
    assert "PULUMI_K8S_CLIENT_TIMEOUT=4 pulumi preview" in line


def test_a_preview_needs_no_kubeconfig(tmp_path: Path, said: Said, wording: Wording) -> None:
    """A pull request's runner has none; an update fails without, and says so."""
    nowhere = existing(kubeconfig=f"{tmp_path}/none")
    wording(
        "cluster",
        refusal(ExistingCluster(), nowhere, rf"{tmp_path}/none.*pulumi config set"),
        "an update without its kubeconfig",
    )
    said.is_preview = True
    ExistingCluster().survey(nowhere)

    (line,) = said
    assert line.startswith("warn: ")
    wording("cluster", line, "a preview without its kubeconfig")


def test_a_kubeconfig_that_is_broken_is_refused_at_preview(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """It is there and can't be meant so. A context that is not there may be another machine's."""
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", "http://10.0.0.1")))
    said.is_preview = True
    wording("cluster", refusal(ExistingCluster(), existing(), "https://"))
    ExistingCluster().survey(existing(kubeContext="none"))

    assert ["warn"] == said.levels


@pytest.mark.usefixtures("api", "said")
def test_what_stands_in_the_way_is_refused_all_at_once(wording: Wording) -> None:
    """Before anything is made."""
    asked = existing(workers="50", globalBatchSize="50", operator="existing")
    text = refusal(ExistingCluster(), asked, "set operator install")

    assert "pulumi config set allowOversubscription true" in text
    wording("cluster", text)


@pytest.mark.usefixtures("api")
def test_workers_that_are_too_large_are_refused_with_the_largest_that_fit(said: Said) -> None:
    """As a line that is accepted; and never more memory than was asked for."""
    text = refusal(ExistingCluster(), existing(workerCpus="40", workerMemory="1Gi"), "workerCpus")
    (line,) = [line.strip() for line in text.splitlines() if "workerCpus" in line]

    assert line.endswith("&& pulumi config set workerMemory 1Gi")
    values = {words[3]: words[4] for words in map(str.split, line.split(" && "))}
    ExistingCluster().survey(existing(**values))
    assert said[-1].startswith("info: the cluster")


@pytest.mark.usefixtures("api")
def test_permission_makes_a_warning_of_what_does_not_fit(said: Said) -> None:
    """It is an estimate: what else runs there is not known. What is not there stays refused."""
    ExistingCluster().survey(existing(workers="50", globalBatchSize="50", allowOversubscription="true"))

    assert said[1].startswith("warn: ")
    assert "baseline, native, ray" in said[1]
    refusal(ExistingCluster(), existing(allowOversubscription="true", operator="existing"), "set operator install")


def test_a_minikube_in_trouble_is_refused(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone, stopped, or not to be asked: a message and no traceback. A preview does not look."""
    monkeypatch.setattr(command, "trouble", lambda profile: f"{profile} is gone")
    refusal(MinikubePlace(), minikube(), "ray-worth-it-ci is gone")

    def fail(_: str) -> str:
        raise ProgramError("no daemon")

    monkeypatch.setattr(command, "trouble", fail)
    refusal(MinikubePlace(), minikube(), "no daemon")
    said.is_preview = True
    MinikubePlace().survey(minikube())

    assert [] == said


@pytest.mark.usefixtures("own")
def test_a_minikube_update_has_the_machine_to_itself_and_a_preview_asks_for_nothing(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain `pulumi up` too: its runs are pods of this machine. What is in the lock's place is a message."""
    said.is_preview = True
    MinikubePlace().survey(minikube())
    free = machine_lock.take_name(machine_lock.NAME)
    assert not isinstance(free, machine_lock.Holder)
    free.close()
    said.is_preview = False
    MinikubePlace().survey(minikube())

    assert isinstance(machine_lock.take_name(machine_lock.NAME), machine_lock.Holder)

    def refuse(_: object) -> None:
        raise machine_lock.LockError("a folder")

    monkeypatch.setattr(machine_lock, "take", refuse)
    refusal(MinikubePlace(), minikube(), "a folder")


def test_what_a_killed_update_left_is_cleared(
    api: Api, own: Path, said: Said, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """A run that goes on, a release that is pending; a cluster that is not made yet has neither."""
    marked: list[tuple[str, str]] = []

    def mark(_: object, namespace: str, release: str) -> list[str]:
        marked.append((namespace, release))
        return ["sh.helm.release.v1.kuberay-operator.v1"]

    monkeypatch.setattr(helm_release, "mark_failed", mark)
    MinikubePlace().survey(of_profile())
    write_kubeconfig(own, api.url)
    api.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", active=1), NAMESPACE)
    MinikubePlace().survey(of_profile())

    assert [(NAMESPACE, operator.RELEASE)] == marked
    assert ["info", "info"] == said.levels
    wording("minikube", "\n".join(said))


def test_a_namespace_that_the_stack_made_is_not_given_up_on_minikube_either(
    made: Api, said: Said, wording: Wording
) -> None:
    """Refused before a run is ended; one that somebody else made there may be used."""
    asked = of_profile(createNamespace="false")
    made.put("/api/v1", "namespaces", {"metadata": {"name": NAMESPACE, "labels": {PROJECT_LABEL: PROJECT}}})

    wording("minikube", refusal(MinikubePlace(), asked, "set createNamespace true"))
    made.objects[f"/api/v1/namespaces/{NAMESPACE}"]["metadata"]["labels"] = {}
    assert MinikubePlace().site(asked) == MinikubePlace().survey(asked)

    assert [] == changes(made) == said


def test_a_minikube_that_does_not_answer_is_refused_once_it_was_made(
    own: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is half made is for this update to make."""
    write_kubeconfig(own, NOWHERE)
    for started in (True, False):
        monkeypatch.setattr(command, "started", lambda _, started=started: started)
        if started:
            refusal(MinikubePlace(), of_profile(), re.escape(NOWHERE))
    MinikubePlace().survey(of_profile())

    assert ["debug"] == said.levels


def test_an_update_beside_somebody_s_ray_job_is_refused_on_minikube(
    made: Api, said: Said, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Before a run is ended, or measured beside it; with the line that ends the job."""
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda *_: THEIRS)
    made.put("/apis/batch/v1", "jobs", job("ray-1-x", "ray-1", active=1), NAMESPACE)

    wording("minikube", refusal(MinikubePlace(), of_profile(), f"{STOP} --stack ci"))

    assert [] == changes(made) == said


def test_a_namespace_that_an_update_leaves_may_have_somebody_s_ray_job(
    made: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update would delete it there; the settings name another namespace by now."""
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda _, namespace, __: THEIRS if namespace == "before" else [])
    assert MinikubePlace().site(of_profile()) == MinikubePlace().survey(of_profile())

    made.put("/api/v1", "pods", {**HEAD, "metadata": {**HEAD["metadata"], "namespace": "before"}}, "before")
    assert "pulumi config set namespace before" in refusal(MinikubePlace(), of_profile(), f"{STOP} --stack ci")


@pytest.mark.usefixtures("api", "said")
def test_an_update_beside_somebody_s_ray_job_is_refused_elsewhere(
    monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """With all else that stands in the way."""
    monkeypatch.setattr(ray_api, "jobs_of_others", lambda *_: THEIRS)

    wording("cluster", refusal(ExistingCluster(), existing(), STOP))


def test_a_head_that_is_ready_and_can_t_be_asked_may_have_somebody_s_job(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """An update would end it. After a fault no head is ready, and nothing runs: the update is what mends that."""
    monkeypatch.setattr(ray_api, "PAUSE_SECONDS", 0)
    client = kube.connect(str(tmp_path / "kubeconfig"))
    api.put("/api/v1", "pods", HEAD, NAMESPACE)
    with pytest.raises(ray_api.RayError, match=r"kubeconfig/ci\b.*\bpod head-1") as error:
        ray_api.jobs_of_others(client, NAMESPACE, "ci")
    wording("cluster", plain(str(error.value), api.url))
    not_ready = {**HEAD["status"], "conditions": [{"type": "Ready", "status": "False"}]}
    api.put("/api/v1", "pods", {**HEAD, "status": not_ready}, NAMESPACE)

    assert [] == ray_api.jobs_of_others(client, NAMESPACE, "ci")
