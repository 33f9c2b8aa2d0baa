"""`make diagnose`: one archive with what there is, and without secrets."""

import base64
import html
import re
import tarfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.api.ray_api import RayError
from infra.places.cluster.manifests.operator import RELEASE
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, TOKEN, Api, node, pod, secret, serving
from tests.unit.secret_corpus import CASES, IN_OBJECT, KNOWN, OBJECT
from tools.look import cluster, diagnose
from tools.look.cluster import StackCluster
from tools.look.diagnose_ray import unpacked
from tools.look.scrub import REPLACEMENT

LOGS = f"/api/v1/namespaces/{NAMESPACE}/pods/head/log"
OURS = {PROJECT_LABEL: PROJECT}
ENCODED = base64.b64encode(TOKEN.encode()).decode()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, StackCluster]]:
    """A cluster whose logs and objects show its token in every way."""
    monkeypatch.setattr(diagnose, "node_logs", lambda _: iter([("minikube.txt", f"--token {TOKEN}")]))
    monkeypatch.setattr(diagnose, "session_logs", lambda *_: iter([("ray-session/gcs.out", TOKEN)]))
    with serving(tmp_path) as (api, kubeconfig):
        stack = cluster.find("ci", {})
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))
        api.put("/api/v1", "nodes", node("one"))
        api.put("/api/v1", "secrets", secret("ray-training-cluster", {"auth_token": TOKEN}), NAMESPACE)
        leaky = pod("head", labels=OURS)
        leaky["metadata"]["annotations"] = {"leaked": f"Bearer {TOKEN} or {ENCODED}"}
        api.put("/api/v1", "pods", leaky, NAMESPACE)
        api.texts[LOGS] = f"started\nAuthorization: Bearer abcdef\nRAY_AUTH_TOKEN={TOKEN}\n"
        yield api, stack


def files(archive: Path) -> dict[str, str]:
    """The texts in an archive, by name without its folder."""
    with tarfile.open(archive) as opened:
        contents = {member.name: opened.extractfile(member) for member in opened}
        return {name.partition("/")[2]: content.read().decode() for name, content in contents.items() if content}


def test_an_archive_holds_what_there_is_and_no_secret(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """The token is nowhere, neither as it is nor in base64; what a Secret holds is named."""
    api, stack = found
    archived = files(diagnose.write(stack, tmp_path / "runs"))

    assert {"versions.txt", "settings.json", "minikube.txt", "events.txt", "logs/head-main.txt"} <= archived.keys()
    assert {"cluster/nodes.yaml", "objects/pods.yaml", "objects/secrets.yaml"} <= archived.keys()
    everything = "\n".join(archived.values())
    assert TOKEN not in everything
    assert ENCODED not in everything
    assert "kubeconfig-token-of-mine" not in everything
    assert "data:\n- auth_token\n" in archived["objects/secrets.yaml"]
    assert f"RAY_AUTH_TOKEN={REPLACEMENT}" in archived["logs/head-main.txt"]
    assert "started" in archived["logs/head-main.txt"]
    assert {"GET"} == {line.split()[0] for line in api.asked}


def test_an_archive_is_for_its_owner_alone(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """From its first byte on, whatever the umask."""
    assert diagnose.write(found[1], tmp_path / "runs").stat().st_mode & 0o777 == 0o600


def test_nothing_of_others_in_the_namespace_is_collected(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """Neither their pods, ConfigMaps, Secrets and policies, nor their logs and events, nor KubeRay's of another's."""
    api, stack = found
    theirs = {"app.kubernetes.io/name": "kuberay", "ray.io/cluster": "their-cluster"}
    things = [("pods", pod("their-pod", labels=theirs)), ("secrets", secret("their-secret", {"key": "their-value"}))]
    for kind, thing in [*things, ("configmaps", pod("their-map")), ("services", pod("their-service"))]:
        api.put("/api/v1", kind, thing, NAMESPACE)
    api.put("/apis/networking.k8s.io/v1", "networkpolicies", pod("their-policy"), NAMESPACE)
    api.put("/apis/ray.io/v1", "rayclusters", pod("their-cluster"), NAMESPACE)
    api.put("/api/v1", "events", _event("their-pod"), NAMESPACE)
    api.texts[LOGS.replace("head", "their-pod")] = "their log"
    everything = "\n".join([*(archived := files(diagnose.write(stack, tmp_path / "runs"))), *archived.values()])

    assert "their" not in everything
    assert not [line for line in api.asked if "their-pod/log" in line]


def test_all_that_is_ours_is_collected(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """By our label, by that of our Helm release, by our RayCluster's; and events of pods that are gone."""
    api, stack = found
    labels = {"app.kubernetes.io/instance": RELEASE}
    api.put("/apis/apps/v1", "deployments", pod("kuberay-operator", labels=labels), NAMESPACE)
    api.put("/api/v1", "pods", pod("kuberay-operator-7d", labels=labels), NAMESPACE)
    api.put("/api/v1", "services", pod("head-svc", labels={"ray.io/cluster": "ray-training-cluster"}), NAMESPACE)
    api.put("/apis/ray.io/v1", "rayclusters", pod("ray-training-cluster"), NAMESPACE)
    job = {"metadata": {"name": "ray-1-0a1b2c"}, "spec": {"template": {"metadata": {"labels": OURS}}}}
    api.put("/apis/batch/v1", "jobs", job, NAMESPACE)
    api.put("/api/v1", "events", _event("ray-1-0a1b2c-x7z9k"), NAMESPACE)
    api.texts[LOGS.replace("head", "kuberay-operator-7d")] = "reconciled"
    archived = files(diagnose.write(stack, tmp_path / "runs"))

    assert "kuberay-operator" in archived["objects/deployments.yaml"]
    assert "head-svc" in archived["objects/services.yaml"]
    assert "ray-training-cluster" in archived["objects/rayclusters.yaml"]
    assert "ray-1-0a1b2c-x7z9k" in archived["events.txt"]
    assert "reconciled" in archived["logs/kuberay-operator-7d-main.txt"]


def _event(about: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "name": about}
    return {"metadata": {"name": f"{about}.1"}, "involvedObject": involved, "message": f"started {about}"}


def test_no_secret_of_the_corpus_is_in_an_archive(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """In logs, annotations, environments and events alike: searched as bytes, unescaped, and in what base64 hides."""
    api, stack = found
    for name, values in KNOWN.items():
        api.put("/api/v1", "secrets", secret(name, values), NAMESPACE)
    leaky = pod("head", labels=OURS)
    leaky["metadata"]["annotations"] = {f"case-{number}": case.text for number, case in enumerate(CASES)}
    leaky["spec"]["containers"][0] |= OBJECT
    api.put("/api/v1", "pods", leaky, NAMESPACE)
    for number, case in enumerate(CASES):
        event = _event("head") | {"message": case.text}
        api.put("/api/v1", "events", event | {"metadata": {"name": f"head.{number}"}}, NAMESPACE)
    api.texts[LOGS] = "\n---\n".join(case.text for case in CASES)
    archived = files(diagnose.write(stack, tmp_path / "runs"))
    gone = [part for case in CASES for part in case.gone] + list(IN_OBJECT)
    leaks = {(name, part) for name, text in archived.items() for form in _forms(text) for part in gone if part in form}

    assert leaks == set()
    assert archived["objects/pods.yaml"].count(REPLACEMENT) >= len(CASES)


def _forms(text: str) -> Iterator[str]:
    """A text as it is, with its quoting undone, its lines joined, and what its words of base64 stand for."""
    plain = re.sub(r"\\+([nrt\"'\\/])", r"\1", text)
    yield from (text, plain, html.unescape(text), urllib.parse.unquote_plus(text))
    yield from (re.sub(r"\s+", " ", text), re.sub(r"\s+", "", text))
    for word in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        for start in range(4):
            code = word[start:].replace("-", "+").replace("_", "/")
            code = code[: len(code) - (len(code) % 4 == 1)]
            decoded = base64.b64decode(code + "=" * (-len(code) % 4)).decode("utf-8", "ignore")
            yield decoded


def test_a_token_that_may_not_be_read_is_not_in_the_archive(
    found: tuple[Api, StackCluster], tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """Without the right to list Secrets the one of Ray is read by its name, and without that what looks random goes."""
    api, stack = found
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    said = ""
    for forbidden in (secrets, f"{secrets}/ray-training-cluster"):
        api.forbidden.add(forbidden)
        everything = "\n".join(files(diagnose.write(stack, tmp_path / "runs")).values())
        (next((tmp_path / "runs").iterdir())).unlink()

        assert TOKEN not in everything
        assert ENCODED not in everything
        assert "started" in everything
        said = capsys.readouterr().err
    wording("look", said)


def test_what_can_t_be_had_is_named_with_the_reason(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """A half-broken cluster is when the archive is wanted."""
    api, stack = found
    del api.texts[LOGS]
    api.forbidden.add(f"/api/v1/namespaces/{NAMESPACE}/events")
    archived = files(diagnose.write(stack, tmp_path / "runs"))

    assert "is forbidden" in archived["events.txt.missing.txt"]
    assert "not found" in archived["logs/head-main.txt"]
    assert "not found" in archived["objects/rayclusters.yaml.missing.txt"]


def test_without_a_cluster_there_is_an_archive_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions, settings and Minikube's logs, and why there is no more."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    monkeypatch.setattr(diagnose, "node_logs", lambda _: iter([]))
    archived = files(diagnose.write(cluster.find("ci", {}), tmp_path / "runs"))

    assert {"versions.txt", "settings.json", "cluster.missing.txt"} == archived.keys()
    assert ".state/kubeconfig/ci " in archived["cluster.missing.txt"]
    assert "STACK=ci make up" in archived["cluster.missing.txt"]


def test_a_head_that_answers_with_something_else_is_said() -> None:
    """For example that there is no Python in its image."""
    with pytest.raises(RayError, match="python: not found"):
        list(unpacked("sh: python: not found"))
