"""What pods find out about their storage is said as they say it, and what keeps them from that is said, too."""

from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import short_job
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.storage_probe import StorageProbeProvider, UnusableStorageError
from tests.unit.kube_api import write_kubeconfig


@pytest.fixture
def props(tmp_path: Path) -> dict[str, Any]:
    """Of the resource."""
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    return {
        "address": "/storage/mine",
        "pod": "{}",
        "role": "",
        "stack": "mine",
        "namespace": "there",
        "kubeconfig": str(path),
    }


def test_what_is_to_be_known_is_kept(props: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As that nothing may be deleted."""
    monkeypatch.setattr(short_job, "run", lambda *_: "a remark\n")
    outs = StorageProbeProvider().create(props).outs or {}
    assert "a remark" == outs["known"]


LOG = "warning\nerror: storage x can't be used: why\n  line"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ShortJobError("it ended with exit code 1", LOG), "storage x"),
        (ShortJobError("no node takes its pod: unbound claims"), "pods can't try their storage: no node"),
    ],
)
def test_why_it_can_t_be_used_is_the_message(
    props: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: ShortJobError, said: str
) -> None:
    """The pod's own, with its line that mends it; or the kubelet's."""

    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(short_job, "run", fails)
    with pytest.raises(UnusableStorageError) as refused:
        StorageProbeProvider().create(props)
    assert str(refused.value).startswith(said)


def test_it_is_tried_again_where_pods_are_let_in_otherwise(props: dict[str, Any]) -> None:
    """And not where the way to the cluster is another; without a role there is nothing to delete."""
    provider = StorageProbeProvider()

    assert provider.diff("", props, {**props, "kubeconfig": "elsewhere"}).changes is False
    for key in ("pod", "role", "namespace"):
        assert provider.diff("", props, {**props, key: "another"}).replaces
    provider.delete("", props)
