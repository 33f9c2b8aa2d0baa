"""Credentials for runs in pods: the role is assumed when a run is made, and what comes of it is where pods find it."""

from base64 import b64encode
from collections.abc import Iterator
from configparser import ConfigParser
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import run_credentials
from infra.places.cluster.api import short_job
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.manifests.pod_parts import STACK_ANNOTATION
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS
from infra.places.cluster.manifests.storage_access import ROLE_SECRET
from infra.places.cluster.run_credentials import RunCredentialsProvider
from infra.places.cluster.storage_probe import StorageProbeProvider, UnusableStorageError
from infra.programs import ProgramError
from tests.storage.cloud import PREFIX, ROLE, Cloud
from tests.unit.kube_api import NAMESPACE, Api, job, serving
from training.launch.storage import run_storage as storing
from training.launch.storage.run_storage import Storage

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets/{ROLE_SECRET}"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[Api, dict[str, Any]]]:
    """A cluster, and what a run's credentials are told."""
    run_credentials._by_run.cache_clear()
    with serving(tmp_path) as (api, kubeconfig):
        yield (
            api,
            {
                "name": "ray-1",
                "stack": "mine",
                "run": "own measurement",
                "role": ROLE,
                "timeoutMinutes": 1.0,
                "namespace": NAMESPACE,
                "kubeconfig": kubeconfig,
            },
        )


def file_of(api: Api) -> str:
    """What pods find."""
    secret = api.objects[SECRETS]
    return str(secret["stringData"]["credentials"])


@pytest.mark.usefixtures("as_caller")
def test_what_is_assumed_is_where_pods_find_it_and_in_no_state(
    api: tuple[Api, dict[str, Any]], cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of S3 read the file as it is, and may what the role may; inputs, outputs and id have none of it."""
    there, props = api

    made = RunCredentialsProvider().create(props)

    text = file_of(there)
    given = ConfigParser()
    given.read_string(text)
    assert made.outs == props
    assert given["default"]["aws_session_token"] not in str((made.id, made.outs))
    mounted = tmp_path / "credentials"
    mounted.write_text(text)
    for name in cloud.caller:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(mounted))
    monkeypatch.setattr(storing, "CREDENTIALS_FILE", str(mounted))
    own = Storage.at(f"{PREFIX}/in-a-pod")
    own.put(mounted, "file")
    assert ["file"] == list(own.names())


@pytest.mark.usefixtures("as_caller")
def test_no_run_begins_before_ray_s_pods_have_theirs(
    api: tuple[Api, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are there already: what they wait for a kubelet would be on the clock of Ray's run, and of no other."""
    there, props = api
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    provider = RunCredentialsProvider()

    provider.create(props)
    assert [] == slept
    there.put("/api/v1", "pods", {"metadata": {"name": "head", "labels": dict(CLUSTER_LABELS)}}, NAMESPACE)
    for ends, waits in ((timedelta(hours=1), 0), (timedelta(hours=-1), 1)):
        text = f"{storing.UNTIL}{(datetime.now(UTC) + ends).isoformat()}\n[default]\n"
        there.objects[SECRETS]["data"] = {"credentials": b64encode(text.encode()).decode()}
        provider.create(props)
        assert waits == len(slept)


@pytest.mark.usefixtures("as_caller")
def test_they_are_made_anew_where_the_run_is(api: tuple[Api, dict[str, Any]]) -> None:
    """A second `up` makes none; a Job that failed is made again, and so are they. A silent cluster changes nothing."""
    there, props = api
    provider = RunCredentialsProvider()
    there.put("/apis/batch/v1", "jobs", job("ray-1-a", "ray-1", "Complete", succeeded=1), NAMESPACE)
    there.put("/apis/batch/v1", "jobs", job("native-1-a", "native-1", "Failed", failed=1), NAMESPACE)

    assert not provider.diff("", props, props).replaces
    assert provider.diff("", props, {**props, "run": "another"}).replaces
    failed = {**props, "name": "native-1"}
    assert provider.diff("", failed, failed).replaces
    silent = {**failed, "kubeconfig": "nowhere"}
    assert not provider.diff("", silent, silent).replaces


def test_a_job_that_somebody_deleted_is_no_run_to_be_made_again(api: tuple[Api, dict[str, Any]]) -> None:
    """As a namespace is cleaned up: an `up` would assume the role each time, for nothing. A refresh has both made."""
    _, props = api
    provider = RunCredentialsProvider()

    assert not provider.diff("id", props, props).replaces
    assert provider.read("id", props).id is None
    assert "id" == provider.read("id", {**props, "kubeconfig": "nowhere"}).id


@pytest.mark.usefixtures("as_caller")
def test_a_secret_of_others_is_neither_written_nor_deleted(
    api: tuple[Api, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made it: another stack, or somebody without a word. It is said before anything is made, too."""
    there, props = api
    monkeypatch.setattr(short_job, "run", lambda *_: "")
    theirs: dict[str, Any] = {"metadata": {"name": ROLE_SECRET}, "data": {"key": "dmFsdWU="}}
    probe = StorageProbeProvider()
    given = {**props, "name": "storage-probe", "address": PREFIX, "pod": "{}"}
    for annotations, whose in (({}, "another owner"), ({STACK_ANNOTATION: "theirs"}, "stack theirs")):
        theirs["metadata"]["annotations"] = annotations
        there.put("/api/v1", "secrets", theirs, NAMESPACE)
        before = str(there.objects)

        with pytest.raises(run_credentials.ForeignSecretError, match=f"belongs to {whose}"):
            RunCredentialsProvider().create(props)
        with pytest.raises(UnusableStorageError, match=f"belongs to {whose}"):
            probe.create(given)
        probe.delete("", given)

        assert before == str(there.objects)


@pytest.mark.usefixtures("as_caller")
def test_a_probe_that_failed_leaves_no_secret(api: tuple[Api, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no state, and nothing would delete it."""
    there, props = api

    def fails(*_: object) -> str:
        assert SECRETS in there.objects
        raise ShortJobError("no node takes its pod")

    monkeypatch.setattr(short_job, "run", fails)
    with pytest.raises(UnusableStorageError, match="no node"):
        StorageProbeProvider().create({**props, "name": "storage-probe", "address": PREFIX, "pod": "{}"})

    assert SECRETS not in there.objects


def test_a_refusal_makes_nothing(
    api: tuple[Api, dict[str, Any]], cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is STS' own answer."""
    there, props = api
    for name, value in cloud.variables(cloud.caller).items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ProgramError, match="can't be assumed"):
        RunCredentialsProvider().create({**props, "role": f"{ROLE}s"})
    assert SECRETS not in there.objects


@pytest.mark.usefixtures("as_caller")
def test_the_probe_assumes_the_role_too_and_takes_the_secret_along(
    api: tuple[Api, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the first that needs one; and finds no fault in a Secret that is gone."""
    there, props = api
    found = []

    def tries(*_: object) -> str:
        found.append(file_of(there))
        return ""

    monkeypatch.setattr(short_job, "run", tries)
    provider = StorageProbeProvider()
    given = {**props, "name": "storage-probe", "address": PREFIX, "pod": "{}"}

    provider.create(given)

    assert ["[default]"] == [text.splitlines()[1] for text in found]
    for _ in range(2):
        provider.delete("", given)
    assert SECRETS not in there.objects


def test_a_pod_waits_for_credentials_that_have_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet brings those of a run in a minute; what never comes is an error; nobody's own file is asked."""
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    storing.await_credentials()  # not where pods have theirs
    monkeypatch.setattr(storing, "CREDENTIALS_FILE", str(file))
    monkeypatch.setattr(storing, "CREDENTIALS_SECONDS", 0.1)
    for hours, known in ((-1, False), (1, True)):
        file.write_text(f"{storing.UNTIL}{(datetime.now(UTC) + timedelta(hours=hours)).isoformat()}\n[default]\n")
        if known:
            storing.await_credentials()
        else:
            with pytest.raises(OSError, match="`pulumi up`"):
                storing.await_credentials()
