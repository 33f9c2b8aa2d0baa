"""Whose CRDs are applied. What a real API server makes of them is tested in tests/apiserver."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from infra.places.cluster import crds
from infra.places.cluster.chart import Source, crds_digest
from infra.places.cluster.crds import LABEL, OWNER, CrdsProvider, ForeignCrdsError
from infra.settings import rules
from tests.unit.kube_api import Api

NAME = "rayclusters.ray.io"
CHART = [{"metadata": {"name": NAME}, "spec": {}}]


@pytest.mark.parametrize(
    ("labels", "take_over", "applied"),
    [
        ({LABEL: "Helm"}, False, None),
        ({}, False, None),
        ({LABEL: OWNER}, False, [NAME]),
        (None, False, [NAME]),
        ({}, True, [NAME]),
    ],
    ids=["Helm's", "nobody's", "this project's", "none there", "nobody's in a cluster of our own"],
)
def test_crds_that_another_made_stay_as_they_are(
    labels: dict[str, str] | None, take_over: bool, applied: list[str] | None, *,
    api: Api, kubeconfig: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In a cluster that is not ours all who use them would get another version. This project's are applied again, as a
    destroyed stack left them; in a cluster of our own what an interrupted update left is this stack's."""
    monkeypatch.setattr(crds, "find", lambda _source: SimpleNamespace(crds=lambda: CHART))
    if labels is not None:
        there = {"metadata": {"name": NAME, "labels": labels}, "spec": {}}
        api.put("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", there)
    source = {**dict.fromkeys(("chart", "version", "chartDigest"), ""), "digest": crds_digest(CHART)}

    with nullcontext() if applied else pytest.raises(ForeignCrdsError, match="operator existing"):
        CrdsProvider().create({**source, "kubeconfig": kubeconfig, "takeOver": take_over})

    assert (applied or []) == [asked.rpartition("/")[2] for asked in api.asked if asked.startswith("PATCH")]


@pytest.mark.parametrize(("chart", "path"), [(rules.CHART, None), ("offline/kuberay.tgz", "offline/kuberay.tgz")])
def test_crds_are_of_the_chart_that_is_installed(
    chart: str, path: str | None, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published one, or the file in the folder of an offline stack."""
    asked = []

    def find(source: Source) -> SimpleNamespace:
        asked.append(source.path)
        return SimpleNamespace(crds=lambda: CHART)

    monkeypatch.setattr(crds, "find", find)
    source = {"chart": chart, "version": "", "chartDigest": "", "digest": crds_digest(CHART)}
    CrdsProvider().create({**source, "kubeconfig": kubeconfig, "takeOver": True})

    assert [path] == asked
