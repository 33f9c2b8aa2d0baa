"""Which cluster a stack belongs to: another one is refused at every step, and its credentials come and go with it.

Two servers answer here; with real API servers and the real engine it is `tests/apiserver`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.kubernetes.pinned_cluster import ClusterError, DestroyCheckProvider, PinnedClusterProvider
from tests.golden import Wording
from tests.unit.kube_api import Api, serving, trust_without_certificate

PINNED, AT_THE_END = PinnedClusterProvider(), DestroyCheckProvider()
SYSTEM = "/api/v1/namespaces/kube-system"
Clusters = dict[str, Api]


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """The stack's and another one; the user's kubeconfig for each is a file of its name."""
    for module in ("kubernetes.kubeconfig", "kubernetes.pinned_cluster", "cluster.api.kube"):
        monkeypatch.setattr(f"infra.places.{module}.PROJECT", tmp_path)
    trust_without_certificate(monkeypatch)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with serving(tmp_path / "a") as (ours, _), serving(tmp_path / "b") as (other, _):
        for name, api in {"ours": ours, "other": other}.items():
            api.put("/api/v1", "namespaces", {"metadata": {"name": "kube-system", "uid": f"uid-of-{name}"}})
        yield {"a/kubeconfig": ours, "b/kubeconfig": other}


def asked(file: str = "a/kubeconfig", stack: str = "s") -> dict[str, Any]:
    """The inputs of a program whose kubeconfig is that file."""
    return {"stack": stack, "kubeconfig": file, "context": "test"}


def created() -> dict[str, Any]:
    """The state after a first update."""
    checked = PINNED.check({}, asked())
    assert not checked.failures
    return PINNED.create(checked.inputs).outs or {}


def updated(state: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
    """The state after another update."""
    checked = PINNED.check(state, news)
    assert not checked.failures
    return PINNED.update("id", state, checked.inputs).outs or {}


def own(stack: str = "s") -> str | None:
    """The stack's own kubeconfig."""
    return kube.own_text(stack)


def lead_elsewhere(clusters: Clusters, stack: str = "s") -> None:
    """Have the address in the stack's own file answer as another cluster does."""
    text = own(stack) or ""
    kube.write_own(stack, text.replace(clusters["a/kubeconfig"].url, clusters["b/kubeconfig"].url))


def test_another_cluster_is_refused_at_preview(clusters: Clusters) -> None:
    """With both of them and the line that chooses a context."""
    checked = PINNED.check(created(), asked("b/kubeconfig"))

    (failure,) = checked.failures or []
    for text in ("uid-of-ours", "uid-of-other", "pulumi config set kubeContext"):
        assert text in failure.reason


def test_no_file_is_written_for_another_cluster(clusters: Clusters, wording: Wording) -> None:
    """Whatever was looked at a moment ago: neither at the first update nor at a later one."""
    state, text = created(), own()
    first = {**asked("b/kubeconfig"), **{key: state[key] for key in ("server", "authority", "uid")}}

    with pytest.raises(ClusterError, match="pulumi config set kubeContext") as later:
        PINNED.update("id", state, asked("b/kubeconfig"))
    with pytest.raises(ClusterError, match="pulumi config set kubeContext"):
        PINNED.create(first)
    assert text == own()
    addresses = [clusters[name].url for name in ("a/kubeconfig", "b/kubeconfig")]
    wording("cluster", str(later.value).replace(addresses[0], "SERVER").replace(addresses[1], "ANOTHER"))


LOOKS = (lambda state: AT_THE_END.delete("id", state), lambda state: PINNED.read("id", state))
"""What destroys, and what refreshes."""
WRITE_AGAIN = r"pulumi up --target '\*\*pinned-cluster'"


def test_nothing_is_destroyed_or_refreshed_in_another_cluster(clusters: Clusters) -> None:
    """That answers at the address of the stack's own; nor where the file that leads there is lost, or with credentials
    that do not say which cluster it is: expired, or a right that was taken. The line writes better ones."""
    state, ours = created(), clusters["a/kubeconfig"]
    AT_THE_END.delete("id", state)
    assert state == PINNED.read("id", state).outs
    ours.forbidden.add(SYSTEM)
    for status in (401, 403):
        ours.expired = status == 401
        for look in LOOKS:
            with pytest.raises(ClusterError, match=rf"(?s)HTTP {status}.*{WRITE_AGAIN}"):
                look(state)
    lead_elsewhere(clusters)
    for look in LOOKS:
        with pytest.raises(ClusterError, match="uid-of-other"):
            look(state)
    kube.remove_own("s")
    with pytest.raises(ClusterError, match=rf"(?s)kubeconfig/s .*{WRITE_AGAIN}"):
        PINNED.read("id", state)


@pytest.mark.usefixtures("clusters")
def test_credentials_go_with_the_stack() -> None:
    """They lie on this machine for as long as there is something in the cluster."""
    state = created()
    assert own() is not None

    PINNED.delete("id", state)

    assert own() is None


def test_a_renamed_stack_is_of_its_cluster_and_of_no_other_name(clusters: Clusters) -> None:
    """After an update nothing needs the old name: its credentials are gone, and the stack can be destroyed."""
    state = created()
    at_the_end = AT_THE_END.create(state).outs or {}
    news = {**state, **asked(stack="new")}
    kube.write_own("new", own() or "")  # as an earlier stack of that name left it
    assert PINNED.diff("id", state, news).changes
    assert AT_THE_END.diff("id", at_the_end, {**at_the_end, "stack": "new"}).changes

    state = updated(state, asked(stack="new"))
    AT_THE_END.delete("id", at_the_end)  # an update that was interrupted here can be destroyed, too
    at_the_end = AT_THE_END.update("id", at_the_end, state).outs or {}

    assert (None, True) == (own("s"), own("new") is not None)
    assert not AT_THE_END.diff("id", at_the_end, state).changes
    AT_THE_END.delete("id", at_the_end)
    lead_elsewhere(clusters, "new")
    with pytest.raises(ClusterError, match="another cluster"):
        AT_THE_END.delete("id", at_the_end)


def test_a_stack_that_has_the_old_name_by_now_keeps_its_way(clusters: Clusters, tmp_path: Path) -> None:
    """In another cluster: the update that would reach it by the old name is refused, with lines that help."""
    state = created()
    at_the_end = AT_THE_END.create(state).outs or {}
    lead_elsewhere(clusters)
    others = own()
    news = PINNED.check(state, asked(stack="new")).inputs

    with pytest.raises(ClusterError, match="Nothing was changed") as refused:
        PINNED.update("id", state, news)
    AT_THE_END.update("id", at_the_end, {**state, "stack": "new"})

    assert (others, None) == (own(), own("new"))
    aside, _, back = [line.split() for line in str(refused.value).splitlines() if line.startswith("  ")]
    for line in (aside, ["state"], back):  # the update lies between
        if line == ["state"]:
            state = PINNED.update("id", state, news).outs or {}
            AT_THE_END.update("id", at_the_end, state)
        else:
            assert "mv" == line[0]
            (tmp_path / line[1]).replace(tmp_path / line[2])
    assert others == own()
    assert own("new") is not None


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.usefixtures("clusters")
def test_a_stack_of_the_old_name_in_the_same_cluster_keeps_its_way(there: bool, tmp_path: Path) -> None:
    """It has settings in this checkout; where there are none the credentials go with the old name."""
    state = created()
    if there:
        (tmp_path / "stacks").mkdir()
        (tmp_path / "stacks" / "Pulumi.s.yaml").touch()
    renamed = updated(state, asked(stack="new"))

    AT_THE_END.update("id", AT_THE_END.create(state).outs or {}, renamed)

    assert there == (own() is not None)


@pytest.mark.usefixtures("clusters")
def test_the_line_of_a_lost_file_helps_a_stack_that_was_renamed() -> None:
    """In another checkout on the same backend there is no file of either name."""
    state = created()
    kube.remove_own("s")
    with pytest.raises(ClusterError, match="is gone"):
        AT_THE_END.delete("id", state)

    updated(state, asked(stack="new"))  # what the line does

    AT_THE_END.delete("id", state)
    assert own("new") == own("s")
