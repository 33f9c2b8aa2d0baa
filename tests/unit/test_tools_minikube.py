"""Around an update of a Minikube stack: one measurement at a time, and a stopped cluster started first."""

import fcntl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from infra import guard
from infra.scripts import minikube as scripts
from infra.scripts.programs import Failure
from tools import minikube
from tools.project import ToolError

HOLD = """
import sys
from tools.minikube import alone_on_machine
with alone_on_machine():
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of its own for each test, also for the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_second_update_waits_for_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """And says so; it goes on when the first has ended, however that ended."""
    entered = threading.Event()

    def second() -> None:
        with minikube.alone_on_machine():
            entered.set()

    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        first.stdout.readline()
        waiting = threading.Thread(target=second)
        waiting.start()
        too_early = entered.wait(0.3)
        first.kill()
        waiting.join(10)

    assert (False, True) == (too_early, entered.is_set())
    assert "another measurement runs on this machine" in capsys.readouterr().err


def test_the_lock_is_that_of_runs_on_this_machine(tmp_path: Path) -> None:
    """A local measurement beside one on Minikube would spoil both; afterwards it is free."""
    with minikube.alone_on_machine(), (tmp_path / guard.LOCK_NAME).open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / guard.LOCK_NAME).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_cluster_of_the_settings_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those of this call alone; why it can't be is said without a traceback."""
    resumed: list[str] = []
    monkeypatch.setattr(scripts, "resume", resumed.append)
    minikube.resume("ci", {})
    minikube.resume("ci", {"minikubeProfile": "mine"})

    assert ["ray-worth-it-ci", "mine"] == resumed

    def fail(_: str) -> None:
        raise Failure("the daemon does not answer")

    monkeypatch.setattr(scripts, "resume", fail)
    with pytest.raises(ToolError, match="stack ci: the daemon does not answer"):
        minikube.resume("ci", {})
