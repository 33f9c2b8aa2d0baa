"""Whose CRDs are applied. What a real API server makes of them is tested in tests/apiserver."""

from types import SimpleNamespace
from typing import Any

import pytest

from infra.places.cluster import crds
from infra.places.cluster.chart import crds_digest
from infra.places.cluster.crds import LABEL, OWNER, CrdsProvider, ForeignCrdsError

NAME = "rayclusters.ray.io"
CHART = [{"metadata": {"name": NAME}, "spec": {}}]
MINE, THEIRS, NOBODY_S = {LABEL: OWNER}, {LABEL: "Helm"}, None


class Cluster:
    """The one CRD that a cluster has, and what is applied to it."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        metadata = SimpleNamespace(name=NAME, labels=labels)
        self.items = [SimpleNamespace(metadata=metadata)]
        self.applied: list[str] = []

    def list_custom_resource_definition(self, **_: Any) -> "Cluster":
        """Itself: it has the items."""
        return self

    def patch_custom_resource_definition(self, name: str, _crd: dict[str, Any], **_: Any) -> None:
        """Note whose turn it was."""
        self.applied.append(name)


def apply(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, **props: Any) -> None:
    """An `up` that makes the CRDs."""
    monkeypatch.setattr(crds, "find", lambda _source: SimpleNamespace(crds=lambda: CHART))
    monkeypatch.setattr(crds, "_api", lambda _props: cluster)
    source = dict.fromkeys(("chart", "version", "chartDigest", "kubeconfig"), "")
    CrdsProvider().create(source | {"digest": crds_digest(CHART), "takeOver": False} | props)


@pytest.mark.parametrize("labels", [THEIRS, NOBODY_S], ids=["Helm's", "without a label"])
def test_crds_that_another_made_stay_as_they_are(
    labels: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a cluster that is not ours: all who use them would get another version."""
    cluster = Cluster(labels)

    with pytest.raises(ForeignCrdsError, match="operator existing"):
        apply(cluster, monkeypatch)

    assert [] == cluster.applied


def test_crds_of_this_project_are_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A destroyed stack left them."""
    cluster = Cluster(MINE)

    apply(cluster, monkeypatch)

    assert [NAME] == cluster.applied


def test_in_a_cluster_of_our_own_they_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an interrupted update left there is this stack's."""
    cluster = Cluster(NOBODY_S)

    apply(cluster, monkeypatch, takeOver=True)

    assert [NAME] == cluster.applied
