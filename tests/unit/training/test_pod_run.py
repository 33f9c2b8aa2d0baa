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
import sys
from training.launch.pod import run
sys.exit(run.run_keeping_log(["sh", "-c", sys.argv[1]], sys.argv[2], "rank-0.log"))
"""


def start(script: str, storage: Path) -> "subprocess.Popen[str]":
    """A run, in a shell, whose log is kept."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, script, str(storage)], cwd=PROJECT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(script: str, storage: Path) -> tuple[int, str, str]:
    """Its exit code, and what it printed to both streams."""
    with start(script, storage) as running:
        out, errors = running.communicate(timeout=LONGEST_SECONDS)
    return running.returncode, out, errors


def kept(storage: Path) -> str:
    """What there is of it."""
    return (storage / "logs" / "rank-0.log").read_text()


def test_all_that_a_run_prints_is_handed_on_and_kept_in_order(tmp_path: Path) -> None:
    """Of both streams, of processes that it starts, and a line that is longer than any buffer."""
    script = """
i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); echo line $i >&2; i=$((i + 1)); done
sh -c "echo of a child"
head -c 300000 /dev/zero | tr '\\0' x; echo
echo the end
"""
    code, out, errors = run(script, tmp_path)

    expected = [*(f"line {number}" for number in range(2000)), "of a child", "x" * 300_000, "the end"]
    assert (0, "") == (code, errors)
    assert expected == out.splitlines() == kept(tmp_path).splitlines()


@pytest.mark.parametrize(
    ("script", "code"), [("echo before; exit 3", 3), ("echo before; kill -ABRT $$", 128 + signal.SIGABRT)]
)
def test_a_run_that_fails_keeps_why_and_its_exit_code(script: str, code: int, tmp_path: Path) -> None:
    """By its own word, as by an exception, or by a signal."""
    assert code == run(f"{script}; echo after", tmp_path)[0]
    assert "before\n" == kept(tmp_path)


def test_what_is_told_to_end_ends_and_is_kept(tmp_path: Path) -> None:
    """As Kubernetes tells a pod that goes. Output is handed on as it comes, for `rwi status --watch`."""
    with start("echo trains; exec sleep 300", tmp_path) as running:
        assert running.stdout is not None
        assert "trains\n" == running.stdout.readline()
        running.terminate()
        running.communicate(timeout=LONGEST_SECONDS)

    assert 128 + signal.SIGTERM == running.returncode
    assert "trains\n" == kept(tmp_path)


def test_what_a_run_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    """Processes that hold its output: one says nothing, and one is never silent."""
    loop = "trap '' PIPE; for i in $(seq 6000); do echo left; sleep 0.1; done"
    _, out, _ = run(f"sleep 100 & echo $!; ({loop}) & echo $!", tmp_path)

    silent, loud = (int(line) for line in out.splitlines() if line != "left")
    for pid in (silent, loud):
        os.kill(pid, signal.SIGKILL)  # which still runs


def test_storage_that_refuses_changes_no_exit_code(tmp_path: Path) -> None:
    """It is a warning in the pod's own log."""
    (tmp_path / "file").write_text("no folder")

    code, out, errors = run("echo trained", tmp_path / "file")

    assert (0, "trained\n") == (code, out)
    assert errors.startswith("warning: ")
    assert f"{tmp_path}/file" in errors


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
