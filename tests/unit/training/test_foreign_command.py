"""The process that runs one command which is not ours: what it takes of that one's CPUs, and which clock it reads."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.limits import LONGEST_SECONDS
from training.launch import foreign_command

ROOT = Path(__file__).resolve().parents[3]
CPUS = "import os; print(sorted(os.sched_getaffinity(0)))"
SUPERVISOR = """
import json, os, sys, time
from training.launch import foreign_command
before, wall = sorted(os.sched_getaffinity(0)), iter([1_000_000.0, *[0.0] * 1000])
time.time = lambda: next(wall)
lines, foreign_command.MOST_PROCESSES, foreign_command.COUNT_EVERY = [], 20, 1
command = [sys.executable, "-c", sys.argv[1]]
end = foreign_command.run(command, ".", dict(os.environ), 1, lambda out: lines.extend(out) or True)
after = sorted(os.sched_getaffinity(0))
print(json.dumps([end.code, end.began, end.ended, before, after, b"".join(lines).decode(), end.left]))
"""
"""A process that runs one command on one CPU, under a clock that is set back after its start; 20 processes are many."""


def supervised(code: str) -> list[Any]:
    """Python with that text: exit code, start, end, the supervisor's CPUs before and after, what it
    printed, and how many processes it left."""
    if not sys.platform.startswith("linux"):
        pytest.skip("this system has no CPU affinity")
    command = [sys.executable, "-c", SUPERVISOR, code]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LONGEST_SECONDS, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def test_the_command_alone_is_bound_to_its_cpus_and_timed_by_a_clock_that_nobody_sets() -> None:
    """Who counts its processes keeps the CPUs that it had, and does not share the baseline's only one. The clock of the
    wall may step back while a script runs, by an hour or to before its start."""
    code, began, ended, before, after, printed, _ = supervised(f"{CPUS}; import time; time.sleep(0.2)")

    assert 0 == code
    assert 1 == len(json.loads(printed))
    assert before == after
    assert 1_000_000.0 == began
    assert 0.2 <= ended - began < began  # and not by a clock that has begun again at 0


DAEMON = """
import os, time
begun, begins = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        print(os.getpid(), flush=True)
        os.write(begins, b"1")
        time.sleep(600)
    os._exit(0)
os.read(begun, 1)
os.wait()
"""
MANY = """
import subprocess, time
for _ in range(200):
    subprocess.Popen(["sleep", "600"])
time.sleep(600)
"""


def test_a_daemon_ends_with_its_script() -> None:
    """It is in a session of its own, and its parents have ended."""
    code, *_, printed, left = supervised(DAEMON)

    assert (0, 1) == (code, left)
    assert not psutil.pid_exists(int(printed))


def test_what_is_forked_while_it_is_looked_for_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon's parent was listed, and ended before it was looked at; the daemon was not there at that time."""
    children, looks = psutil.Process.children, [False]

    def miss_at_first(process: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
        found = [each for each in children(process, recursive) if each.pid == daemon.pid]  # none of another test's
        looks.append(True)
        return found if looks[-2] else []

    with subprocess.Popen([sys.executable, "-Sc", "import time; time.sleep(600)"]) as daemon:
        monkeypatch.setattr(psutil.Process, "children", miss_at_first)
        left, goes_on = foreign_command.end_descendants(), psutil.pid_exists(daemon.pid)
        daemon.kill()

    assert (1, False) == (left, goes_on)


def test_what_may_not_be_signalled_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user, as sudo makes it, would be waited for as long as it likes."""
    children = psutil.Process.children

    def refuse(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    with subprocess.Popen([sys.executable, "-Sc", "import time; time.sleep(600)"]) as other:
        monkeypatch.setattr(
            psutil.Process, "children", lambda *given, **how: [x for x in children(*given, **how) if x.pid == other.pid]
        )
        monkeypatch.setattr(psutil.Process, "terminate", refuse)
        monkeypatch.setattr(psutil.Process, "kill", refuse)
        monkeypatch.setattr(foreign_command, "GIVE_UP_SECONDS", 0.3)
        left = foreign_command.end_descendants(grace_seconds=0)
        other.kill()

    assert 1 == left


def test_a_script_that_starts_too_many_processes_is_ended() -> None:
    """And all of them with it."""
    code, *_, left = supervised(MANY)

    assert -signal.SIGKILL == code
    assert left >= 20


def test_the_end_of_a_command_is_not_rounded_to_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the next one, which is never here; a count within which the command ends is not its time."""
    counted: list[float] = []
    threads = threading.active_count()
    running = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def pids() -> list[int]:
        if running.stdin:
            running.stdin.close()
        while threading.active_count() > threads:
            time.sleep(0.01)
        counted.append(time.monotonic())
        return [1]

    monkeypatch.setattr(foreign_command, "POLL_SECONDS", threading.TIMEOUT_MAX)
    foreign_command._wait(subprocess.Popen(["true"]))
    monkeypatch.setattr(foreign_command, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(foreign_command, "COUNT_EVERY", 1)
    monkeypatch.setattr(psutil, "pids", pids)
    _, ended = foreign_command._wait(running)

    assert ended <= counted[0]


def test_processes_are_counted_where_they_became_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting each of them takes CPU time of the arm's: not again while the machine has as many as before."""
    counted: list[int] = []
    real = psutil.Process.children

    def children(self: psutil.Process, **given: Any) -> Any:
        counted.append(self.pid)
        return real(self, **given)

    monkeypatch.setattr(foreign_command, "COUNT_EVERY", 1)
    monkeypatch.setattr(foreign_command, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(psutil.Process, "children", children)
    of_other_tests = len(real(psutil.Process(), recursive=True))
    running = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    looks = iter(range(10))

    def pids() -> list[int]:
        if next(looks, None) is None and running.stdin:
            running.stdin.close()
        return [1, 2, 3]

    monkeypatch.setattr(psutil, "pids", pids)
    most, _ = foreign_command._wait(running)

    assert of_other_tests + 1 == most
    assert 1 == len(counted)
