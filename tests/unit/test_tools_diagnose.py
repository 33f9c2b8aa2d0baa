"""`make diagnose`: one archive with what there is, and without secrets."""

import base64
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra import kube
from tests.unit.kube_api import NAMESPACE, TOKEN, Api, node, pod, secret, serving
from tools import cluster, diagnose
from tools.cluster import StackCluster
from tools.diagnose_ray import unpacked
from tools.ray_api import RayError
from tools.scrub import REPLACEMENT, Scrubber

LOGS = f"/api/v1/namespaces/{NAMESPACE}/pods/head/log"
ENCODED = base64.b64encode(TOKEN.encode()).decode()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, StackCluster]]:
    """A cluster whose logs and objects show its token in every way."""
    monkeypatch.setattr(diagnose, "minikube_logs", lambda _: iter([("minikube.txt", f"--token {TOKEN}")]))
    monkeypatch.setattr(diagnose, "session_logs", lambda *_: iter([("ray-session/gcs.out", TOKEN)]))
    with serving(tmp_path) as (api, kubeconfig):
        stack = cluster.find("ci", {})
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))
        api.put("/api/v1", "nodes", node("one"))
        api.put("/api/v1", "secrets", secret("ray-training-cluster", {"auth_token": TOKEN}), NAMESPACE)
        leaky = pod("head")
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
    monkeypatch.setattr(diagnose, "minikube_logs", lambda _: iter([]))
    archived = files(diagnose.write(cluster.find("ci", {}), tmp_path / "runs"))

    assert {"versions.txt", "settings.json", "cluster.missing.txt"} == archived.keys()
    assert "there is no .state/kubeconfig/ci yet" in archived["cluster.missing.txt"]


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("kubeadm join 1.2.3.4:8443 --token abcdef.0123456789abcdef", "abcdef.0123456789abcdef"),
        ("token: eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5l.c2lnbmF0dXJl", "eyJhbGci"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("index https://me:secret-word@host/simple", "secret-word"),
        ("authorization: Bearer 0123", "0123"),
    ],
)
def test_other_secrets_are_known_by_their_form(text: str, gone: str) -> None:
    """Those of Minikube's own log, for one."""
    assert gone not in Scrubber([]).clean(text)


@pytest.mark.parametrize("text", ["namespace ray-system", "rwi.example.com", "head-x7k.1869abcdef012345"])
def test_ordinary_text_stays(text: str) -> None:
    """An archive full of holes helps nobody; a service account's Secret holds its namespace too."""
    service_account: list[dict[str, Any]] = [secret("sa", {"namespace": "ray-system", "ca.crt": "rwi.example"})]

    assert text == Scrubber(service_account).clean(text)


def test_a_registry_s_password_is_removed_wherever_it_stands() -> None:
    """Not only the whole of the Secret that holds it."""
    login = secret("login", {".dockerconfigjson": '{"auths": {"a": {"password": "hunter22"}}}'})

    assert f"pull with {REPLACEMENT}" == Scrubber([login]).clean("pull with hunter22")


def test_a_head_that_answers_with_something_else_is_said() -> None:
    """For example that there is no Python in its image."""
    with pytest.raises(RayError, match=r"is no archive.*python: not found"):
        list(unpacked("sh: python: not found"))
