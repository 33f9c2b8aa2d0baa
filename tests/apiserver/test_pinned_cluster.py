"""Which cluster a stack belongs to, with two real API servers and no engine: what is refused, what is written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.kubernetes import kubeconfig, pinned_cluster
from infra.places.kubernetes.pinned_cluster import ClusterError, DestroyCheckProvider, PinnedClusterProvider
from tests.apiserver.clusters import Address, Cluster, User, address

PROVIDER = PinnedClusterProvider()

Clusters = tuple[Cluster, Cluster]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """Whose kubeconfig is the standard one, in an empty project."""
    for module in ("kubernetes.kubeconfig", "cluster.api.kube"):
        monkeypatch.setattr(f"infra.places.{module}.PROJECT", tmp_path / "p")
    made = User(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(made.file))
    return made


@pytest.fixture
def behind(clusters: Clusters) -> Iterator[Address]:
    """An address of the stack's cluster."""
    with address() as made:
        made.target = clusters[0].port
        yield made


NEWS = {"stack": "s", "kubeconfig": "", "context": "mine"}


def created(news: dict[str, Any] = NEWS) -> dict[str, Any]:
    """The state after a first update."""
    checked = PROVIDER.check({}, dict(news))
    assert not checked.failures
    return PROVIDER.create(checked.inputs).outs or {}


def refused(state: dict[str, Any]) -> str:
    """What is said against a second update; empty when it is made."""
    checked = PROVIDER.check(state, dict(NEWS))
    return "".join(failure.reason for failure in checked.failures or [])


def own() -> str:
    """The stack's own kubeconfig."""
    return kube.own_text("s") or ""


def test_the_cluster_is_recorded_without_a_credential(clusters: Clusters, user: User, tmp_path: Path) -> None:
    """In the state: addresses, a hash of the authority, uid. Credentials are in the file alone, which is the user's."""
    ours, _ = clusters
    user.has({"mine": ours.entry}, "mine")
    state = created()

    assert 64 == len(state.pop("authority"))
    assert {"api", "dns"} == json.loads(state.pop("servers")).keys()
    assert {**NEWS, "server": ours.entry["server"], "uid": ours.uid} == state
    file = tmp_path / "p" / kube.own_path("s")
    assert [0o600, 0o700] == [path.stat().st_mode & 0o777 for path in (file, file.parent)]
    assert str(tmp_path / "credentials") in own()


def test_another_cluster_is_refused_and_both_are_named(clusters: Clusters, user: User) -> None:
    """By `check`, at preview; and by `update`, which leaves the file as it is."""
    ours, other = clusters
    user.has({"mine": ours.entry}, "mine")
    state, file = created(), own()
    user.has({"mine": other.entry}, "mine")
    reason = refused(state)

    assert ours.uid in reason
    assert other.uid in reason
    assert ours.entry["server"] in reason
    for way in ("kubectl config get-contexts", "pulumi config set kubeContext", "pulumi destroy", "pulumi stack init"):
        assert way in reason
    with pytest.raises(ClusterError, match="pulumi config set kubeContext"):
        PROVIDER.update("id", state, {**NEWS, "uid": other.uid})
    assert file == own()


def test_another_cluster_at_the_same_address_is_refused(clusters: Clusters, user: User, behind: Address) -> None:
    """A cluster made anew on the same machine has the address of the one before it."""
    ours, other = clusters
    user.has({"mine": ours.entry | {"server": behind.server}}, "mine")
    state = created()
    behind.target = other.port
    user.has({"mine": other.entry | {"server": behind.server}}, "mine")

    assert other.uid in refused(state)


def test_the_same_cluster_at_a_new_address_is_written_anew(clusters: Clusters, user: User, behind: Address) -> None:
    """And so is a file that was lost, or whose credentials are old."""
    ours, _ = clusters
    user.has({"mine": ours.entry}, "mine")
    state = created()
    assert not PROVIDER.diff("id", state, state).changes
    user.has({"mine": ours.entry | {"server": behind.server}}, "mine")
    checked = PROVIDER.check(state, dict(NEWS))

    assert not checked.failures
    difference = PROVIDER.diff("id", state, checked.inputs)
    assert (True, []) == (difference.changes, difference.replaces)
    assert behind.server == (PROVIDER.update("id", state, checked.inputs).outs or {})["server"]
    assert behind.server in own()


def test_a_lost_file_is_said_so_and_written_again(clusters: Clusters, user: User, tmp_path: Path) -> None:
    """A refresh reads nothing without it; the next update has it again."""
    user.has({"mine": clusters[0].entry}, "mine")
    state = created()
    (tmp_path / "p" / kube.own_path("s")).unlink()

    with pytest.raises(ClusterError, match=r"(?s)\.state/kubeconfig/s is gone.*pulumi up --target '\*\*pinned"):
        PROVIDER.read("id", state)
    assert PROVIDER.diff("id", state, state).changes
    PROVIDER.update("id", state, state)
    assert own()
    PROVIDER.delete("id", state)
    assert not own()


def test_a_preview_needs_no_cluster(clusters: Clusters, user: User) -> None:
    """What was recorded stays; nothing else is known, and nothing is refused."""
    user.has({"mine": clusters[0].entry}, "mine")
    state = created()
    user.has({"mine": clusters[0].entry | {"server": "https://127.0.0.1:9"}}, "mine")
    unreachable = PROVIDER.check(state, dict(NEWS))
    user.file.unlink()
    absent = PROVIDER.check(state, dict(NEWS))

    for checked in (unreachable, absent):
        assert not checked.failures
        assert state["uid"] == checked.inputs["uid"]
    assert not PROVIDER.diff("id", state, absent.inputs).changes
    with pytest.raises(ClusterError, match=r"(?s)no kubeconfig.*Nothing was"):
        PROVIDER.create(absent.inputs)


def test_a_first_update_that_looked_at_nothing_makes_nothing(clusters: Clusters, user: User) -> None:
    """Or the stack would belong to whatever answers next."""
    user.has({"mine": clusters[0].entry}, "mine")

    with pytest.raises(ClusterError, match="did not answer"):
        PROVIDER.create(dict(NEWS))
    assert not own()


def test_destroying_looks_first(clusters: Clusters, user: User, tmp_path: Path) -> None:
    """Also where the other cluster has a certificate of the same authority: nothing else would tell them apart."""
    ours, other = clusters
    user.has({"mine": ours.entry}, "mine")
    state = created()
    DestroyCheckProvider().delete("id", state)
    user.has({"mine": other.entry}, "mine")
    kube.write_own("s", kubeconfig.select(None, "mine").text)

    with pytest.raises(ClusterError, match=rf"kube-system {other.uid}"):
        DestroyCheckProvider().delete("id", state)
    (tmp_path / "p" / kube.own_path("s")).unlink()
    with pytest.raises(ClusterError, match="is gone"):
        DestroyCheckProvider().delete("id", state)


def test_the_name_of_its_resource_is_in_the_line_that_writes_it(user: User) -> None:
    """The target of the update is found by it."""
    assert f"**{pinned_cluster.NAME}" in pinned_cluster.lost("s", {})
