"""Asking a cluster: by the request that is needed and no other; one that does not answer is said in seconds."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from tests import unreachable
from tests.golden import Wording
from tests.unit.kube_api import Api, serving, write_kubeconfig


def test_one_question_is_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API server offers is not asked, and no answer is kept where another user or cluster would find it."""
    (shared := tmp_path / "shared").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    with serving(tmp_path) as (server, path):
        api = kube.connect(path)
        kube.items(api, "/api/v1/nodes")

    assert ["GET /api/v1/nodes"] == server.asked
    assert [] == list(shared.iterdir())


NODES = "/api/v1/nodes"


@pytest.mark.parametrize("answer", ["<html>Log in</html>", '{"error": "log in"}', '"log in"', "[1]", "null", ""])
def test_a_page_that_is_no_api_server_s_is_said_so(answer: str, api: Api, client: Any) -> None:
    """As of a portal that manages clusters, whose address lacks the cluster."""
    api.texts[NODES] = answer
    with pytest.raises(KubeError, match=f"(?s)answers, and not.*{api.url}{NODES}$"):
        kube.items(client, NODES)


@pytest.mark.parametrize(
    ("status", "headers", "asked"),
    [(302, {"Location": "/login"}, 1), (429, {"Retry-After": "0"}, 3), (429, {}, 1)],
    ids=["sent on", "busy for now", "busy"],
)
def test_a_server_is_asked_again_only_if_it_says_so(
    status: int, headers: dict[str, str], asked: int, *, api: Api, client: Any
) -> None:
    """API Priority and Fairness answers with 429, and when to ask again. A server that sends on to its login has
    answered, and nobody else gets the token: no redirect is followed."""
    api.refused[NODES] = status
    api.headers |= headers
    with pytest.raises(KubeError) as caught:
        kube.items(client, NODES)

    assert (status == 302) == ("answers, and not" in str(caught.value))
    assert (status, asked) == (caught.value.status, len(api.asked))


def test_a_list_of_nothing_may_be_null(api: Api, client: Any) -> None:
    """As Go writes an empty one."""
    api.texts[NODES] = '{"items": null}'
    assert [] == kube.items(client, NODES)


def test_the_line_break_of_a_token_s_file_is_none_of_the_token(tmp_path: Path) -> None:
    """As for kubectl; the error about such a header would show the token."""
    with serving(tmp_path) as (_, path):
        (tmp_path / "token").write_text("of-mine\n")
        content = yaml.safe_load(Path(path).read_text())
        content["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
        api = kube.connect(content)
        assert [] == kube.items(api, "/api/v1/nodes")

    assert "Bearer of-mine" == api.configuration.get_api_key_with_prefix("BearerToken")


def test_a_damaged_kubeconfig_is_said_so(tmp_path: Path) -> None:
    """Not as an error of YAML's parser."""
    (tmp_path / "kubeconfig").write_text("a: [b")
    with pytest.raises(KubeError, match="can't be used"):
        kube.connect(str(tmp_path / "kubeconfig"))


def test_nobody_else_may_read_the_stack_s_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while it is written, where a killed update left a part of one."""
    monkeypatch.setattr(kube, "PROJECT", tmp_path)
    left = kube.own_folder() / f".s.{os.getpid()}"
    left.write_text("")
    left.chmod(0o644)
    kube.write_own("s", "secret")

    (file,) = kube.own_folder().iterdir()
    assert ("s", 0o600, "secret") == (file.name, file.stat().st_mode & 0o777, kube.own_text("s"))


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
