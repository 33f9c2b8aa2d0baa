"""Asking a cluster: by the request that is needed and no other; one that does not answer is said in seconds."""

import tempfile
from pathlib import Path

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from tests import unreachable
from tests.golden import Wording
from tests.unit.kube_api import serving, write_kubeconfig


def test_one_question_is_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API server offers is not asked, and no answer is kept where another user or cluster would find it."""
    (shared := tmp_path / "shared").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with serving(tmp_path) as (server, path):
        api = kube.connect(path)
        kube.items(api, "/api/v1/nodes")

    assert ["GET /api/v1/nodes"] == server.asked
    assert [] == list(shared.iterdir())


def test_a_page_that_is_no_api_server_s_is_said_so(tmp_path: Path) -> None:
    """As of a portal that manages clusters, whose address lacks the cluster."""
    with serving(tmp_path) as (server, path):
        server.texts["/api/v1/nodes"] = "<html>Log in</html>"
        with pytest.raises(KubeError, match=rf"(?s)no JSON.*curl .*{server.url}/api/v1/nodes$"):
            kube.items(kube.connect(path), "/api/v1/nodes")


@pytest.mark.parametrize("way", unreachable.WAYS)
def test_what_nothing_answers_is_said_in_time(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Also where packets are dropped and where a connection hears nothing. Shorter here than outside."""
    assert 5 > kube.CONNECT_SECONDS  # twice, beside Pulumi's own requests, within 20 s
    monkeypatch.setattr(kube, "CONNECT_SECONDS", 0.5)
    with unreachable.address(way) as server:
        write_kubeconfig(tmp_path / "config", server)
        with pytest.raises(KubeError) as caught:
            kube.get(kube.connect(str(tmp_path / "config")), "/version")

    assert 0 == caught.value.status
    first, second = str(caught.value).splitlines()
    reason = "Connection refused" if way == "refused" else "timed out"
    assert server in first
    assert reason in first
    assert "object at 0x" not in first
    assert "HTTPSConnection" not in first
    assert f"  curl --insecure --max-time 5 {server}/version" == second
    if way == "refused":
        wording("cluster", str(caught.value).replace(server, "SERVER"))
