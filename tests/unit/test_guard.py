"""The guard, with commands that train nothing: what it ends, why it says it ended, and what it waits for."""

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra import guard

ROOT = Path(__file__).resolve().parents[2]
STUBBORN = "import os, signal, time; os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
FAMILY = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}])
print("ready", flush=True)
time.sleep(float(sys.argv[1]))
"""
"""A command with a child in a process group of its own that ignores SIGTERM, as Ray's workers may."""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts guards as the provider does; whatever is left of their sessions is killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start_guard(*command: str, deadline: float = 60) -> subprocess.Popen[bytes]:
        with (tmp_path / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "infra.guard", "--deadline", str(deadline), "--progress", str(tmp_path)),
                    *("--", sys.executable, "-c", *command),
                ],
                cwd=ROOT,
                env=os.environ | {"TMPDIR": str(tmp_path)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start_guard
    for process in started:
        with process:
            process.kill()
        for pid in guard.session_members(process.pid):
            os.kill(pid, signal.SIGKILL)


def family_is_ready(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Waits until the command has started its child."""
    wait_for(lambda: "ready" in (folder / "log.txt").read_text() and len(guard.session_members(process.pid)) == 3)


def wait_for(met: Callable[[], object], seconds: float = 20) -> None:
    """Poll until `met()` is true."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", guard.SIGNALLED + 9),
    ],
)
def test_the_commands_end_is_passed_on(start: Start, command: str, code: int) -> None:
    """Its exit code as it is, a signal as shells say it."""
    assert code == start(command).wait(20)


def test_children_that_outlive_the_command_are_ended(start: Start, tmp_path: Path) -> None:
    """Also those that left its process group and ignore SIGTERM; the command's success stays one."""
    process = start(FAMILY, "0.5")
    family_is_ready(process, tmp_path)

    assert 0 == process.wait(20)
    assert [] == guard.session_members(process.pid)


def test_end_of_file_ends_the_session(start: Start, tmp_path: Path) -> None:
    """When the starter is gone, in whatever way, the kernel closes its end of the pipe."""
    process = start(FAMILY, "60")
    family_is_ready(process, tmp_path)
    assert process.stdin
    process.stdin.close()

    assert guard.ABANDONED == process.wait(10)
    assert [] == guard.session_members(process.pid)


def test_the_deadline_ends_the_session(start: Start) -> None:
    """With a code of its own, by which the provider names the setting."""
    process = start(FAMILY, "60", deadline=1)

    assert guard.DEADLINE == process.wait(10)
    assert [] == guard.session_members(process.pid)


def test_a_killed_guards_session_can_be_ended_by_its_number(start: Start, tmp_path: Path) -> None:
    """What the provider does when the guard itself was killed."""
    process = start(FAMILY, "60")
    family_is_ready(process, tmp_path)
    process.kill()
    process.wait()

    guard.end_session(process.pid)

    assert [] == guard.session_members(process.pid)


def test_waiting_for_the_lock_is_said_once_and_has_no_deadline(start: Start, tmp_path: Path) -> None:
    """A measurement beside another one would spoil both."""
    with (tmp_path / guard.LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start("print('ran')", deadline=0.5)
        wait_for((tmp_path / "progress.jsonl").exists)
        time.sleep(1)
        assert process.poll() is None
        assert "ran" not in (tmp_path / "log.txt").read_text()
        fcntl.flock(lock, fcntl.LOCK_UN)

    assert 0 == process.wait(20)
    assert "ran" in (tmp_path / "log.txt").read_text()
    (said,) = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert "waits" in said


def test_waiting_ends_with_the_starter(start: Start, tmp_path: Path) -> None:
    """An interrupted `up` leaves no guard in the queue."""
    with (tmp_path / guard.LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start("pass")
        wait_for((tmp_path / "progress.jsonl").exists)
        assert process.stdin
        process.stdin.close()

        assert guard.ABANDONED == process.wait(10)


def test_the_lock_is_held_until_nothing_of_the_run_is_left(start: Start, tmp_path: Path) -> None:
    """And by the guard alone: a process of the run that inherited it would hold it longer than the guard lives."""
    process = start(FAMILY, "60")
    family_is_ready(process, tmp_path)
    with (tmp_path / guard.LOCK_NAME).open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert process.stdin
        process.stdin.close()
        fcntl.flock(lock, fcntl.LOCK_EX)
        alive = [pid for pid in guard.session_members(process.pid) if pid != process.pid]

    assert [] == alive
    assert 0o644 == (tmp_path / guard.LOCK_NAME).stat().st_mode & 0o777


def test_a_guard_without_a_session_of_its_own_ends_nothing(tmp_path: Path) -> None:
    """Called by hand, it would end the shell that calls it, and all else that runs in that terminal."""
    by_hand = shlex.join(
        [sys.executable, "-m", "infra.guard", "--deadline=9", f"--progress={tmp_path}", "--", sys.executable, "-c", ""]
    )
    shell = subprocess.run(
        ["sh", "-c", f"sleep 60 & {by_hand}; echo its code: $?; kill $! && echo the neighbour was alive"],
        cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip

    assert ["its code: 2", "the neighbour was alive"] == shell.stdout.splitlines()
    assert "python -m training.baseline" in shell.stderr


def test_a_zombie_counts_as_gone() -> None:
    """In a container whose first process waits for nobody, the dead stay listed for ever."""
    with subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True) as dead:
        wait_for(lambda: psutil.Process(dead.pid).status() == psutil.STATUS_ZOMBIE)

        assert [] == guard.session_members(dead.pid)
