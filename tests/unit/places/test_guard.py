"""The guard, with commands that train nothing: what it ends, why it says it ended, and what it waits for."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra.places.local import guard
from tests.limits import LONGEST_SECONDS, wait_for
from training.contract import result
from training.machine import machine_lock, process_session

ROOT = Path(__file__).resolve().parents[3]
LINUX = sys.platform.startswith("linux")
"""It alone gives orphans to whom they descend from."""
CHILD = """
import os, signal, sys, time
os.setsid() if sys.argv[1] == "worker" else os.setpgid(0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(f"{sys.argv[1]} {os.getpid()}", flush=True)
time.sleep(600)
"""
LAUNCHER = f"""
import os, pathlib, subprocess, sys, time
for child in ("stubborn", "worker")[:{1 + LINUX}]:
    subprocess.Popen([sys.executable, "-c", {CHILD!r}, child])
print(f"launcher {{os.getpid()}}", flush=True)
began = time.monotonic()
while time.monotonic() - began < 600 and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
"""
"""A command with a child in a process group of its own, as Ray's workers may be, and where orphans are known with one
in a session of its own, as torchrun starts each worker. Both ignore SIGTERM. A file ends the command."""

GUARD = f"""
import pathlib, sys, time
from infra.places.local import guard
from training.machine import machine_lock, process_session
machine_lock.NAME = "\\0" + sys.argv.pop(1)
clock, later = time.monotonic, pathlib.Path(sys.argv.pop(1), "later")
time.monotonic = lambda: clock() + 2 * {LONGEST_SECONDS} * later.exists()
guard.WARM_UP = [sys.executable, "-c", sys.argv.pop(1)]
guard.POLL_SECONDS, process_session.GRACE_SECONDS = 0.02, 0.1
sys.exit(guard.main())
"""
"""The guard with the lock of a machine of its own, a warm-up that is given, and little patience. By its clock the
longest deadline has passed when the file `later` is in the folder of its progress."""
HOLD = """
import sys
from training.machine import machine_lock
machine_lock.NAME = "\\0" + sys.argv[1]
machine_lock.hold(print)
print("has it", flush=True)
sys.stdin.read()
"""
Started = subprocess.Popen[bytes]
Start = Callable[..., Started]


@pytest.fixture
def other_measurement(machine_lock_name: str) -> Iterator["subprocess.Popen[str]"]:
    """It has the lock until its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, machine_lock_name],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert "has it" == process.stdout.readline().strip()
        yield process
        process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What guards and their commands print."""
    return tmp_path / "log.txt"


@pytest.fixture
def start(tmp_path: Path, log: Path, machine_lock_name: str) -> Iterator[Start]:
    """Starts guards as the provider does; whatever is left of their sessions is killed at the end."""
    started: list[Started] = []

    def start_guard(*command: str, warm_up: str = "", elsewhere: bool = False) -> Started:
        flags = ["--warm-up=cnn"] * bool(warm_up) + ["--elsewhere"] * elsewhere
        own = guard.command(LONGEST_SECONDS, tmp_path, *flags, "--", sys.executable, "-c", *command)[3:]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", GUARD, machine_lock_name, str(tmp_path), warm_up, *own],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        return process

    yield start_guard
    for process in started:
        with process:
            process.kill()
        for pid in process_session.session_members(process.pid):
            os.kill(pid, signal.SIGKILL)


def abandon(process: Started) -> None:
    """As the kernel does when the starter is gone, in whatever way: close its end of the pipe."""
    assert process.stdin
    process.stdin.close()


@pytest.fixture
def family(start: Start, tmp_path: Path, log: Path) -> Iterator[tuple[Started, dict[str, int]]]:
    """A guard whose command and its children are ready, and their numbers by what they are."""
    process = start(LAUNCHER, str(tmp_path / "end"))
    wait_for(lambda: 2 + LINUX == log.read_text().count("\n"))
    pids = {name: int(pid) for name, pid in map(str.split, log.read_text().splitlines())}
    if LINUX:
        assert os.getsid(pids["worker"]) != process.pid
    yield process, pids
    for pid in filter(runs, pids.values()):
        os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether a process goes on: it has not ended, and is not only waited for."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("of itself", 0),
        ("killed", guard.SIGNALLED + 9),
        ("abandoned", guard.ABANDONED),
        ("deadline", guard.DEADLINE),
    ],
)
def test_nothing_is_left_however_a_run_ends(
    family: tuple[Started, dict[str, int]], tmp_path: Path, end: str, code: int
) -> None:
    """By what the guard ends with the provider knows it: the command's own code, a signal as shells say it, a deadline,
    a starter that is gone. Then no child goes on, whatever its group or session and its signals, also when what started
    it was killed and tells nobody; and the token is gone, which Ray itself deletes unless it is killed."""
    process, pids = family
    (tmp_path / result.RAY_TOKEN).touch()

    if end == "of itself":
        (tmp_path / "end").touch()
    elif end == "killed":
        os.kill(pids["launcher"], signal.SIGKILL)
    elif end == "abandoned":
        abandon(process)
    else:
        (tmp_path / "later").touch()

    assert code == process.wait(LONGEST_SECONDS)
    assert [] == process_session.session_members(process.pid)
    assert [] == list(filter(runs, pids.values()))
    assert not (tmp_path / result.RAY_TOKEN).exists()


@pytest.mark.skipif(not LINUX, reason="Linux alone gives orphans to whom they descend from")
def test_orphans_that_ended_are_not_kept(start: Start, log: Path) -> None:
    """Nothing else waits for them: a script that leaves many would come to the limit of processes."""
    leaves = (
        "import os, time\nfor _ in range(20):\n  if not os.fork():\n    os.fork() or time.sleep(0.2)\n    os._exit(0)\n"
    )
    process = start(f"{leaves}print('left', flush=True)\ntime.sleep(600)")
    wait_for(lambda: "left" in log.read_text())

    wait_for(lambda: 1 == len(psutil.Process(process.pid).children()))


def test_a_killed_guards_session_can_be_ended_by_its_number(
    family: tuple[Started, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the provider does when the guard itself was killed."""
    monkeypatch.setattr(process_session, "GRACE_SECONDS", 0.1)
    process, _ = family
    process.kill()
    process.wait()

    process_session.end_session(process.pid)

    assert [] == process_session.session_members(process.pid)


def test_waiting_for_the_lock_is_said_once_and_has_no_deadline(
    start: Start, other_measurement: "subprocess.Popen[str]", tmp_path: Path, log: Path
) -> None:
    """A measurement beside another one would spoil both."""
    process = start("print('ran')")
    wait_for((tmp_path / "progress.jsonl").exists)
    (tmp_path / "later").touch()
    assert process.poll() is None
    assert "ran" not in log.read_text()
    other_measurement.kill()

    assert 0 == process.wait(LONGEST_SECONDS)
    assert "ran" in log.read_text()
    said, after = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert "waits" in said
    assert machine_lock.WAITED in after
    assert f" {other_measurement.pid} " in said


def test_a_guard_waits_for_another_measurement_of_this_machine_alone(
    start: Start, other_measurement: "subprocess.Popen[str]", tmp_path: Path, log: Path
) -> None:
    """A job of a Ray cluster on other machines takes nothing of this one, and its exit code is its own. An interrupted
    `up` leaves no guard in the queue."""
    assert 3 == start("print('ran'); raise SystemExit(3)", elsewhere=True).wait(LONGEST_SECONDS)
    assert "ran" in log.read_text()
    process = start("pass")
    wait_for((tmp_path / "progress.jsonl").exists)
    abandon(process)

    assert guard.ABANDONED == process.wait(LONGEST_SECONDS)
    assert other_measurement.poll() is None


def test_a_run_of_a_stopped_update_ends_while_it_waits_and_not_once_it_runs(
    start: Start,
    other_measurement: "subprocess.Popen[str]",
    tmp_path: Path,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of it is lost. The run itself does not know of the file."""
    unwanted = tmp_path / "unwanted"
    monkeypatch.setenv(machine_lock.UNWANTED, str(unwanted))
    waits = start("print('ran')")
    wait_for((tmp_path / "progress.jsonl").exists)
    unwanted.touch()
    ended = waits.wait(LONGEST_SECONDS)
    unwanted.unlink()
    other_measurement.kill()
    other_measurement.wait()
    runs_already = start(
        "import os, sys, time; print('began', flush=True); time.sleep(0.5); sys.exit(sys.argv[1] in os.environ)",
        machine_lock.UNWANTED,
    )
    wait_for(lambda: "began" in log.read_text())
    unwanted.touch()

    assert (guard.UNWANTED, 0) == (ended, runs_already.wait(LONGEST_SECONDS))
    assert "ran" not in log.read_text()


def test_the_lock_is_held_until_nothing_of_the_run_is_left(family: tuple[Started, dict[str, int]]) -> None:
    """And by the guard alone: a process of the run that inherited it would hold it longer than the guard lives."""
    process, pids = family
    waited_for: list[str] = []

    def end_the_run(text: str) -> None:
        waited_for.append(text)
        abandon(process)

    taken = machine_lock.take(end_the_run)
    alive = list(filter(runs, pids.values()))
    assert taken
    taken.close()

    assert [] == alive
    assert f" {process.pid} " in waited_for[0]
    assert [machine_lock.WAITED] == waited_for[1:]


def test_a_first_run_is_warmed_up_before_it_starts(start: Start, log: Path) -> None:
    """For its workload, and whatever comes of it: the run says by itself what it lacks."""
    warm_up = "import sys; print('warm', *sys.argv[1:], flush=True); raise SystemExit('no')"
    assert 0 == start("print('run')", warm_up=warm_up).wait(LONGEST_SECONDS)

    assert ["warm", "cnn", "run"] == [word for word in log.read_text().split() if word in ("warm", "cnn", "run")]


def test_warming_up_ends_with_the_starter_too(start: Start, log: Path) -> None:
    """And no run starts then."""
    process = start("print('run')", warm_up="import time; print('warm', flush=True); time.sleep(600)")
    wait_for(lambda: "warm" in log.read_text())
    abandon(process)

    assert guard.ABANDONED == process.wait(LONGEST_SECONDS)
    assert "run" not in log.read_text()


def test_a_guard_without_a_session_of_its_own_ends_nothing(tmp_path: Path) -> None:
    """Called by hand, it would end the shell that calls it, and all else that runs in that terminal."""
    by_hand = shlex.join(guard.command(9, tmp_path, "--", sys.executable, "-c", ""))
    shell = subprocess.run(
        ["sh", "-c", f"sleep 600 & {by_hand}; echo code $?; kill $! && echo neighbour alive"],
        cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LONGEST_SECONDS, check=False,
    )  # fmt: skip

    assert ["code 2", "neighbour alive"] == shell.stdout.splitlines()
    assert "python -m training.baseline" in shell.stderr


def test_a_zombie_counts_as_gone() -> None:
    """In a container whose first process waits for nobody, the dead stay listed for ever."""
    with subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True) as dead:
        wait_for(lambda: psutil.Process(dead.pid).status() == psutil.STATUS_ZOMBIE)

        assert [] == process_session.session_members(dead.pid)
