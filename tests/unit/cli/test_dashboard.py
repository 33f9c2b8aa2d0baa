"""`rwi jobs dashboard`: where it answers, and a forwarded connection that carries both ways."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.look import cluster, dashboard, status
from cli.setup.project import ToolError
from infra.places.cluster.api import kube
from infra.places.cluster.manifests.ray_cluster import HEAD_LABELS
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.unit.kube_api import NAMESPACE, Api, node, pod, serving


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """A cluster whose head runs, on a node that is this machine."""
    with serving(tmp_path) as (served, kubeconfig):
        monkeypatch.setattr(cluster, "connect", lambda _: kube.connect(kubeconfig))

        served.put("/api/v1", "nodes", node("one"))
        served.put("/api/v1", "pods", pod("head", labels=HEAD_LABELS), NAMESPACE)
        yield served


@pytest.mark.usefixtures("api")
def test_a_node_port_that_answers_is_all_that_is_needed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address and the line that prints the token; nothing is forwarded, and the command ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        assert ("127.0.0.1", 30265) == status.node_port_of(cluster.find("ci", {}), [node("one")])
        monkeypatch.setattr(dashboard, "node_port_of", lambda *_: address)
        assert 0 == dashboard.show("ci", {})

    text = capsys.readouterr().out
    assert f"dashboard: http://127.0.0.1:{address[1]}\n" in text
    assert "its token: kubectl " in text


@pytest.mark.usefixtures("api")
def test_without_one_the_head_s_port_is_forwarded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To loopback alone, until Ctrl-C."""
    addresses: list[Any] = []
    monkeypatch.setattr(dashboard, "DASHBOARD_PORT", 0)
    monkeypatch.setattr(dashboard, "forward", lambda *given: addresses.append(given[2].getsockname()))
    dashboard.show("ci", {})

    assert ["127.0.0.1"] == [address[0] for address in addresses]
    assert "http://127.0.0.1:8265" in capsys.readouterr().out


@pytest.mark.usefixtures("api")
def test_a_connection_carries_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one read at a time; it ends when the browser's side does. Here the pod answers in capitals."""
    monkeypatch.setattr(dashboard, "connection", echo)
    ours, theirs = socket.socketpair()
    api = kube.connect(str(tmp_path / "kubeconfig"))
    serving_it = threading.Thread(target=dashboard._serve, args=(api, NAMESPACE, theirs))
    serving_it.start()
    with ours:
        answers = [ask(ours, word) for word in (b"one", b"two" * 100_000)]
    serving_it.join(LONGEST_SECONDS)

    assert [b"ONE", b"TWO" * 100_000] == answers
    assert not serving_it.is_alive()


def ask(client: socket.socket, word: bytes) -> bytes:
    """What comes back for a word."""
    sending = threading.Thread(target=client.sendall, args=(word,))
    sending.start()
    answer = b""
    while len(answer) < len(word):
        answer += client.recv(65536)
    sending.join()
    return answer


@contextmanager
def echo(_: Any, namespace: str, name: str, port: int) -> Iterator[socket.socket]:
    """In place of a pod's port."""
    assert (NAMESPACE, "head") == (namespace, name)
    ours, theirs = socket.socketpair()

    def answer() -> None:
        while chunk := theirs.recv(65536):
            theirs.sendall(chunk.upper())

    answering = threading.Thread(target=answer)
    answering.start()
    with ours:
        yield ours
    answering.join(LONGEST_SECONDS)
    theirs.close()


def test_without_a_head_there_is_no_dashboard(api: Api) -> None:
    """With the command that shows what there is instead."""
    api.put("/api/v1", "pods", pod("head", "Pending", labels=HEAD_LABELS), NAMESPACE)

    with pytest.raises(ToolError, match=r"\./rwi status --stack ci"):
        dashboard.show("ci", {})


@pytest.mark.parametrize("more", [{}, {"monitoring": "prometheus", "grafanaUrl": "https://grafana.example.com"}])
@pytest.mark.usefixtures("api")
def test_what_shows_metrics_is_printed_beside_it(
    more: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """Grafana's address, and how Prometheus is reached; without the keys nothing more than the dashboard's."""
    monkeypatch.setattr(dashboard, "is_reachable", lambda *_: True)
    dashboard.show("ci", more)
    lines = capsys.readouterr().out.splitlines()

    assert (4 if more else 2) == len(lines)
    if more:
        wording("status", "\n".join(lines[2:]))
