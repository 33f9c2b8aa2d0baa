"""Whose CRDs are applied. What a real API server makes of them is tested in tests/apiserver."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.places.cluster import crds
from infra.places.cluster.chart import crds_digest
from infra.places.cluster.crds import LABEL, OWNER, CrdsProvider, ForeignCrdsError
from tests.unit.kube_api import Api, serving

NAME = "rayclusters.ray.io"
CHART = [{"metadata": {"name": NAME}, "spec": {}}]
MINE, THEIRS, NOBODY_S = {LABEL: OWNER}, {LABEL: "Helm"}, None


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Cluster"]:
    """A cluster whose CRD is what is given to it."""
    monkeypatch.setattr(crds, "find", lambda _source: SimpleNamespace(crds=lambda: CHART))
    with serving(tmp_path) as (api, kubeconfig):
        yield Cluster(api, kubeconfig)


class Cluster:
    """The one CRD that a cluster may have, and what is applied to it."""

    def __init__(self, api: Api, kubeconfig: str) -> None:
        self._api, self._kubeconfig = api, kubeconfig

    def has(self, labels: dict[str, str] | None) -> None:
        """Let it have the CRD with these labels."""
        item = {"metadata": {"name": NAME} | ({"labels": labels} if labels else {}), "spec": {}}
        self._api.put("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", item)

    def apply(self, **props: Any) -> list[str]:
        """Return what an `up` applies that makes the CRDs."""
        source = dict.fromkeys(("chart", "version", "chartDigest"), "") | {"kubeconfig": self._kubeconfig}
        try:
            CrdsProvider().create(source | {"digest": crds_digest(CHART), "takeOver": False} | props)
        finally:
            self.applied = [asked.rpartition("/")[2] for asked in self._api.asked if asked.startswith("PATCH")]
        return self.applied


@pytest.mark.parametrize("labels", [THEIRS, NOBODY_S], ids=["Helm's", "without a label"])
def test_crds_that_another_made_stay_as_they_are(labels: dict[str, str] | None, cluster: Cluster) -> None:
    """In a cluster that is not ours: all who use them would get another version."""
    cluster.has(labels)

    with pytest.raises(ForeignCrdsError, match="operator existing"):
        cluster.apply()

    assert [] == cluster.applied


@pytest.mark.parametrize("is_there", [True, False])
def test_crds_of_this_project_are_applied_again(is_there: bool, cluster: Cluster) -> None:
    """A destroyed stack left them; and where there are none."""
    if is_there:
        cluster.has(MINE)

    assert [NAME] == cluster.apply()


def test_in_a_cluster_of_our_own_they_are_taken_over(cluster: Cluster) -> None:
    """Whatever an interrupted update left there is this stack's."""
    cluster.has(NOBODY_S)

    assert [NAME] == cluster.apply(takeOver=True)
