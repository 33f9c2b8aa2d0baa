"""A namespace or a RayCluster that somebody deleted: said before Pulumi looks for it."""

from typing import Any

import pulumi
import pytest

from infra import own_state
from infra.places.cluster import gone
from infra.places.cluster.api import kube
from infra.places.cluster.manifests import ray_cluster
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api
from tests.unit.settings_machine import existing

RAY = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/{ray_cluster.NAME}"
OURS = f"/api/v1/namespaces/{NAMESPACE}"
STATE = {
    name: {"type": f"kubernetes:{kind}", "outputs": {"metadata": {"name": name, "namespace": NAMESPACE}}}
    for name, kind in {
        NAMESPACE: "core/v1:Namespace",
        ray_cluster.NAME: "ray.io/v1:RayCluster",
        "service": "core/v1:Service",
    }.items()
} | {"run": {"type": "pulumi-python:dynamic/cluster:JobResult", "outputs": {}}}
"""As the engine gives it: by URN, which nobody reads."""


@pytest.fixture(autouse=True)
def _all_is_there(api: Api, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack's cluster, with all that the state has."""
    monkeypatch.setattr(kube, "own_text", lambda _: "there")
    monkeypatch.setattr(kube, "own_path", lambda _: kubeconfig)
    monkeypatch.setattr(own_state, "resources", lambda: STATE)
    api.objects |= {OURS: {"metadata": {}}, RAY: {"metadata": {}}}


@pytest.mark.parametrize("gone_paths", [(RAY,), (OURS, RAY)])
def test_what_is_gone_is_named_with_the_line_that_goes_on(
    gone_paths: tuple[str, ...], api: Api, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """`up` is refused, and a preview says that it would be."""
    for path in gone_paths:
        del api.objects[path]
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(pulumi.RunError) as refused:
        gone.refuse(existing())
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    gone.refuse(existing())

    wording("cluster", str(refused.value))
    (warned,) = said
    assert warned.partition(": ")[2] == str(refused.value).partition(": ")[2]
    assert ("namespace ray-system," in warned) == (OURS in gone_paths)


@pytest.mark.parametrize("case", ["all there", "never made", "refreshed", "silent", "unreadable state"])
def test_nothing_else_is_refused(case: str, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first update, one after a refresh, a cluster that does not answer."""

    def unreadable() -> Any:
        raise RuntimeError

    if case in ("never made", "refreshed", "unreadable state"):
        api.objects.clear()
    if case == "never made":
        monkeypatch.setattr(kube, "own_text", lambda _: None)
    if case == "silent":
        api.refused[OURS] = 503
    # Where all is there, the state is not even read
    monkeypatch.setattr(own_state, "resources", dict if case == "refreshed" else unreadable)

    gone.refuse(existing())
