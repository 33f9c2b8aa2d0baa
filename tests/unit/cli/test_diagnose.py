"""`rwi doctor --archive`: one archive with what there is, and without secrets."""

import base64
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.look import cluster, diagnose, diagnose_objects
from cli.look.cluster import StackCluster
from cli.look.diagnose_logs import unpacked
from infra.places.cluster.api import kube
from infra.places.cluster.api.ray_api import RayError
from infra.places.cluster.manifests.operator import RELEASE
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.settings.table import every_key, keys_of
from tests.unit.kube_api import NAMESPACE, TOKEN, Api, node, pod, secret, serving
from training.contract.recipe import WORKLOADS

ROOT = Path(__file__).resolve().parents[3]
LOGS = f"/api/v1/namespaces/{NAMESPACE}/pods/head/log"
OURS = {PROJECT_LABEL: PROJECT}
PASSWORD = "correct-horse-battery"  # noqa: S105 (made up)
"""A secret that has no form of one: only a field that is not collected keeps it out of an archive."""
NAMES = {"namespace", "storageClass", "minikubeProfile", "image", "kuberayVersion"}
"""Settings that are shown although a user writes them: names and a version that the archive's objects have, too."""
WITHOUT_TEXT = re.compile(
    "true or false|one of [a-z0-9, -]+|(none, or separated by commas: )?a (whole )?number (from|above) .*"
    "|from .* as Kubernetes writes memory: .*"
)
"""Matches what a user is told of a value that is no text."""
ENCODED = [base64.b64encode(text.encode()).decode() for text in (TOKEN, PASSWORD)]
LEAKY: dict[str, Any] = {
    "env": [{"name": "PLAIN", "value": PASSWORD}],
    "args": ["--password", PASSWORD],
    "command": ["sh", "-c", f"export A={PASSWORD}"],
    "lifecycle": {"preStop": {"exec": {"command": [PASSWORD]}}},
}


def leaky_pod(name: str) -> dict[str, Any]:
    """A pod of ours whose every field that a user or a program fills holds a secret."""
    holder = pod(name, labels=OURS | {"mine": PASSWORD})
    holder["metadata"]["annotations"] = {"note": f"{PASSWORD} {TOKEN}"}
    for container in holder["spec"]["containers"]:
        container.update(LEAKY, image=f"me:{PASSWORD}@registry/x:1")
    holder["spec"]["volumes"] = [{"name": "v", "nfs": {"server": PASSWORD, "path": "/"}}]
    for status in holder["status"]["containerStatuses"]:
        status["state"] = {"terminated": {"exitCode": 1, "reason": "Error", "message": PASSWORD}}
        status["lastState"] = {"waiting": {"reason": "CrashLoopBackOff", "message": PASSWORD}}
    holder["status"]["message"] = PASSWORD
    holder["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "X", "message": PASSWORD}]
    return holder


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, StackCluster]]:
    """A cluster with secrets wherever there can be one."""
    monkeypatch.setattr(diagnose, "node_logs", lambda _: iter([("minikube.txt", f"--token {TOKEN}")]))
    monkeypatch.setattr(diagnose, "session_logs", lambda *_: iter([("ray-session/gcs.out", TOKEN)]))
    monkeypatch.setitem(os.environ, "MY_CLOUD_SECRET", PASSWORD)
    with serving(tmp_path) as (api, kubeconfig):
        stack = cluster.find("ci", {})
        explicit = {
            "workers": "2",
            "operator": "install",
            "scriptArguments": f"--password {PASSWORD}",
            "environment": f"A={PASSWORD}",
            "storage": f"s3://me:{PASSWORD}@bucket",
            "image": f"me:{PASSWORD}@registry/x:1",
            "rayToken": "20250301",
        }
        stack = replace(stack, settings=replace(stack.settings, explicit=explicit))
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))
        labels = {"pod-security.kubernetes.io/enforce": "restricted", "mine": PASSWORD}
        namespace = {"metadata": {"name": NAMESPACE, "labels": labels}, "status": {"phase": "Active"}}
        api.put("/api/v1", "namespaces", namespace)
        machine = node("one")
        machine["metadata"]["annotations"] = {"note": PASSWORD}
        api.put("/api/v1", "nodes", machine)
        api.put("/api/v1", "secrets", secret("ray-training-cluster", {"auth_token": TOKEN}), NAMESPACE)
        api.put("/api/v1", "configmaps", pod("map", labels=OURS) | {"data": {"a": PASSWORD}}, NAMESPACE)
        api.put("/api/v1", "pods", leaky_pod("head"), NAMESPACE)
        api.put("/api/v1", "events", _event("head") | {"reason": "Unhealthy", "message": PASSWORD}, NAMESPACE)
        for reason in ("Failed", "FailedMount", "FailedCreate", "Pulling"):
            event = _event("head") | {"reason": reason, "message": f"https://registry/x?signature={PASSWORD}"}
            api.put("/api/v1", "events", event | {"metadata": {"name": f"head.{reason}"}}, NAMESPACE)
        job = {
            "metadata": {"name": "ray-1-0a1b2c", "annotations": {"x": PASSWORD}},
            "spec": {"template": leaky_pod("t")},
        }
        api.put("/apis/batch/v1", "jobs", job, NAMESPACE)
        ray = pod("ray-training-cluster", labels=OURS)
        ray["spec"] = {
            "rayVersion": "1",
            "headGroupSpec": {"rayStartParams": {"x": PASSWORD}, "template": leaky_pod("t")},
        }
        ray["status"] = {"state": "failed", "reason": PASSWORD}
        api.put("/apis/ray.io/v1", "rayclusters", ray, NAMESPACE)
        api.texts[LOGS] = f"started\nRAY_AUTH_TOKEN={TOKEN}\n"
        yield api, stack


def archive_of(stack: StackCluster, folder: Path, *, logs: bool = False) -> dict[str, str]:
    """The texts in the archive of a stack, by name without its folder. It is for its owner alone."""
    archive = diagnose.write(stack, folder / "runs", logs=logs)
    assert 0o600 == archive.stat().st_mode & 0o777
    with tarfile.open(archive) as opened:
        contents = {member.name: opened.extractfile(member) for member in opened}
        return {name.partition("/")[2]: content.read().decode() for name, content in contents.items() if content}


def test_an_archive_holds_what_there_is_and_no_secret(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """Not by a search for them: what may hold one is neither read nor written."""
    api, stack = found
    archived = archive_of(stack, tmp_path)
    everything = "\n".join([*archived, *archived.values()])

    of_all = {"versions.txt", "settings.txt", "events.txt", "cluster/nodes.yaml", "cluster/namespace.yaml"}
    assert of_all | {f"objects/{kind}.yaml" for kind in ("pods", "jobs", "rayclusters")} <= archived.keys()
    secrets = (TOKEN, PASSWORD, *ENCODED, "kubeconfig-token-of-mine", "20250301")
    assert [] == [text for text in secrets if text in everything]
    assert [] == [line for line in api.asked if any(part in line for part in ("/secrets", "/configmaps", "/log"))]
    assert {"GET"} == {line.split()[0] for line in api.asked}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_setting_that_is_shown_holds_no_text_of_a_user(workload: str) -> None:
    """Numbers, switches and names from a list, as a user is told of them; and a few names that a cluster's objects have
    anyway. The archive asks for a key, and not for that of a workload."""
    keys = keys_of(workload)
    shown = {name for name in keys if every_key()[name].may_be_shown}

    assert {"workers", "workerMemory", "rayWorkers", "image"} <= shown
    assert set() == {name for name in shown - NAMES if not WITHOUT_TEXT.fullmatch(keys[name].rule.allowed)}
    for name in shown - NAMES:
        with pytest.raises(ValueError, match=PASSWORD):
            keys[name].rule.parse(PASSWORD)


PODS = diagnose_objects.SHOWN["pods"]
PARTS = {
    "METADATA": PODS["metadata"],
    "POD": PODS["spec"],
    "CONTAINER": PODS["spec"]["containers"],
    "CONDITION": PODS["status"]["conditions"],
    "CONTAINER_STATUS": PODS["status"]["containerStatuses"],
    "STATE": PODS["status"]["containerStatuses"][0]["state"],
}
"""Fields that stand in several places, by the name under which the page lists them once."""


def paths(fields: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields by their paths; a part ends a path by its name."""
    part = next((name for name, part in PARTS.items() if path and fields == part), None)
    if part:
        yield (*path, part)
    elif isinstance(fields, dict):
        for name, below in fields.items():
            yield from paths(below, (*path, name))
    elif isinstance(fields, list):
        yield from paths(fields[0], path)
    else:
        yield (*path, "*") if fields == "*" else path


def test_the_docs_list_every_field() -> None:
    """Of each kind, as the code has them: those of one parent on a line, and parts of several places once."""
    lines = []
    for kind, fields in (diagnose_objects.SHOWN | PARTS).items():
        parents: dict[str, list[str]] = {}
        for *parent, name in paths(fields):
            parents.setdefault(".".join(parent), []).append(name)
        lines += [kind, *(f"  {parent}: {' '.join(names)}".replace("  : ", "  ") for parent, names in parents.items())]

    listed = (ROOT / "docs" / "diagnose-fields.txt").read_text(encoding="utf-8").partition("\n\n")[2]

    assert lines == listed.splitlines()


def test_what_helps_is_in_an_archive(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """Images, sizes, states and exit codes; of settings the numbers, and that others are set."""
    api, stack = found
    scheduling = {"reason": "FailedScheduling", "type": "Warning", "message": "0/2"}
    api.put("/api/v1", "events", _event("head") | scheduling | {"metadata": {"name": "head.2"}}, NAMESPACE)
    archived = archive_of(stack, tmp_path)
    (head,) = yaml.safe_load_all(archived["objects/pods.yaml"])
    container, status = head["spec"]["containers"][0], head["status"]["containerStatuses"][0]

    assert {"name", "image"} <= container.keys()
    assert {"reason": "Error", "exitCode": 1} == status["state"]["terminated"]
    assert "FailedScheduling Pod/head: 0/2" in archived["events.txt"]
    assert "Unhealthy Pod/head\n" in archived["events.txt"]
    assert {"workers = 2", "scriptArguments = [set]", "storage = [set]"} <= set(archived["settings.txt"].splitlines())


def test_logs_are_there_when_they_are_asked_for(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """As the programs printed them."""
    archived = archive_of(found[1], tmp_path, logs=True)

    assert f"started\nRAY_AUTH_TOKEN={TOKEN}\n" == archived["logs/head-main.txt"]
    assert {"minikube.txt", "ray-session/gcs.out"} <= archived.keys()


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
    archived = archive_of(stack, tmp_path, logs=True)

    assert "their" not in "\n".join([*archived, *archived.values()])
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
    archived = archive_of(stack, tmp_path, logs=True)

    assert "kuberay-operator" in archived["objects/deployments.yaml"]
    assert "head-svc" in archived["objects/services.yaml"]
    assert "ray-training-cluster" in archived["objects/rayclusters.yaml"]
    assert "ray-1-0a1b2c-x7z9k" in archived["events.txt"]
    assert "reconciled" in archived["logs/kuberay-operator-7d-main.txt"]


def _event(about: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "name": about}
    return {"metadata": {"name": f"{about}.1"}, "involvedObject": involved, "message": f"started {about}"}


def test_what_can_t_be_had_is_named_with_the_reason(found: tuple[Api, StackCluster], tmp_path: Path) -> None:
    """A half-broken cluster is when the archive is wanted."""
    api, stack = found
    del api.texts[LOGS]
    api.forbidden |= {f"/api/v1/namespaces/{NAMESPACE}/events", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"}
    archived = archive_of(stack, tmp_path, logs=True)

    assert "is forbidden" in archived["events.txt.missing.txt"]
    assert "not found" in archived["logs/head-main.txt"]
    assert "is forbidden" in archived["objects/deployments.yaml.missing.txt"]


def test_without_a_cluster_there_is_an_archive_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions and settings; why there is no more is printed, because it may name an address."""
    monkeypatch.setattr(cluster, "ROOT", tmp_path)
    monkeypatch.setattr(diagnose, "node_logs", lambda _: iter([]))
    archived = archive_of(cluster.find("ci", {}), tmp_path)

    assert {"versions.txt", "settings.txt", "cluster.missing.txt"} == archived.keys()
    shown = capsys.readouterr().err
    assert ".state/kubeconfig/ci " in shown
    assert "./rwi up --stack ci" in shown
    assert ".state" not in archived["cluster.missing.txt"]


def test_a_head_that_answers_with_something_else_is_said() -> None:
    """For example that there is no Python in its image."""
    with pytest.raises(RayError, match="python: not found"):
        list(unpacked("sh: python: not found"))
