"""A pod's log is kept in storage: whole, in order, however the run ends; and nothing else about the run changes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.contract.provenance import PROJECT
from training.launch.pod import run as pod_run

RUN = """
import os, sys
from training.launch.pod import run
sys.exit(run.run_keeping_log([sys.executable, "-u", "-c", sys.argv[1]], sys.argv[2], "rank-0.log"))
"""


def command(script: str, storage: Path | str) -> list[str]:
    """A run of the script whose log is kept."""
    return [sys.executable, "-c", RUN, script, str(storage)]


def run(script: str, storage: Path | str) -> "subprocess.CompletedProcess[str]":
    """It, to its end."""
    return subprocess.run(
        command(script, storage), cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )


def kept(storage: Path) -> str:
    """What there is of it."""
    return (storage / "logs" / "rank-0.log").read_text()


def test_all_that_a_run_prints_is_handed_on_and_kept_in_order(tmp_path: Path) -> None:
    """Of both streams, of processes that it starts, and a line that is longer than any buffer."""
    script = """
import subprocess, sys
for number in range(2000):
    print("line", number, file=(sys.stdout, sys.stderr)[number % 2])
subprocess.run(["sh", "-c", "echo of a child"])
print("x" * 300_000)
print("the end")
"""
    done = run(script, tmp_path)

    assert 0 == done.returncode, done.stderr
    expected = [*(f"line {number}" for number in range(2000)), "of a child", "x" * 300_000, "the end"]
    assert expected == done.stdout.splitlines() == kept(tmp_path).splitlines()
    assert "" == done.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import sys; print('before'); sys.exit(3)", 3),
        ("print('before'); raise ValueError('why it ended')", 1),
        ("import os; print('before'); os.abort()", 128 + signal.SIGABRT),
    ],
)
def test_a_run_that_fails_keeps_why_and_its_exit_code(script: str, code: int, tmp_path: Path) -> None:
    """By its own word, by an exception, by a signal."""
    done = run(script, tmp_path)

    assert code == done.returncode
    assert kept(tmp_path).startswith("before\n")
    assert "ValueError" not in script or "why it ended" in kept(tmp_path)


def test_what_is_told_to_end_ends_and_is_kept(tmp_path: Path) -> None:
    """As Kubernetes tells a pod that goes."""
    script = "import time; print('trains', flush=True); time.sleep(300)"
    running = subprocess.Popen(command(script, tmp_path), cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert "trains\n" == running.stdout.readline()

    running.terminate()

    assert 128 + signal.SIGTERM == running.wait(LONGEST_SECONDS)
    running.stdout.close()
    assert "trains\n" == kept(tmp_path)


def test_output_is_handed_on_as_it_comes(tmp_path: Path) -> None:
    """`rwi status --watch` reads it: before the run goes on, and not when a buffer is full."""
    script = "import sys; print('first', flush=True); sys.stdin.readline(); print('second', flush=True)"
    running = subprocess.Popen(
        command(script, tmp_path), cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdin is not None
    assert running.stdout is not None

    assert "first\n" == running.stdout.readline()
    rest, _ = running.communicate("go on\n", timeout=LONGEST_SECONDS)
    assert "second\n" == rest


def test_what_a_run_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    """A process that holds its output, and says nothing."""
    script = "import subprocess; child = subprocess.Popen(['sleep', '100']); print(child.pid, flush=True)"

    done = run(script, tmp_path)

    os.kill(int(done.stdout), signal.SIGKILL)  # which still runs


def test_what_prints_on_after_a_run_is_not_waited_for(tmp_path: Path) -> None:
    """A process that was left, and that is never silent."""
    script = """
import subprocess
child = subprocess.Popen(["sh", "-c", "trap '' PIPE; for i in $(seq 6000); do echo left; sleep 0.1; done"])
print(child.pid, flush=True)
"""

    done = run(script, tmp_path)

    os.kill(int(next(line for line in done.stdout.splitlines() if line != "left")), signal.SIGKILL)  # it still runs


def test_storage_that_refuses_changes_no_exit_code(tmp_path: Path) -> None:
    """It is a warning in the pod's own log."""
    (tmp_path / "file").write_text("no folder")

    done = run("print('trained')", tmp_path / "file")

    assert (0, "trained\n") == (done.returncode, done.stdout)
    assert done.stderr.startswith("warning: ")
    assert f"{tmp_path}/file" in done.stderr


def test_a_pod_with_storage_starts_its_run_once(wording: Wording, tmp_path: Path) -> None:
    """With the same command."""
    environment = {key: value for key, value in os.environ.items() if key != pod_run.LOG_IS_KEPT}
    started = [sys.executable, "-m", "training.launch.pod.run", "baseline", f"--storage={tmp_path}", "--epochs=many"]

    done = subprocess.run(started, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)

    assert 0 != done.returncode
    assert 1 == done.stdout.count("--epochs: 'many'")
    assert "--epochs: 'many'" in kept(tmp_path)
    wording("run", done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("arm", "index", "name"), [("baseline", None, "rank-0.log"), ("native", "1", "rank-1.log")])
def test_a_log_has_the_name_of_its_pod(arm: str, index: str | None, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rank's, or that of Ray's driver."""
    monkeypatch.delenv("JOB_COMPLETION_INDEX", raising=False)
    if index:
        monkeypatch.setenv("JOB_COMPLETION_INDEX", index)

    assert name == pod_run._log_name(arm)
    assert "driver.log" == pod_run._log_name("ray")
