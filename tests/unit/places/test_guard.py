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
STUBBORN = """
import os, signal, time
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
FAMILY = f"""
import pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}])
began = time.monotonic()
while time.monotonic() - began < 600 and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""
"""A command with a child in a process group of its own that ignores SIGTERM, as Ray's workers may. A file ends it."""

WORKER = """
import os, signal, time
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(f"worker {os.getpid()}", flush=True)
time.sleep(600)
"""
LAUNCHER = f"""
import os, pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {WORKER!r}])
print(f"launcher {{os.getpid()}}", flush=True)
began = time.monotonic()
while time.monotonic() - began < 600 and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""
"""A command with a child in a session of its own, as torchrun starts each worker. A file ends it."""

GUARD = f"""
import pathlib, sys, time
from infra.places.local import guard
from training.contract import result
from training.machine import machine_lock, process_session
machine_lock.NAME = "\\0" + sys.argv.pop(1)
clock, later = time.monotonic, pathlib.Path(sys.argv.pop(1), "later")
time.monotonic = lambda: clock() + 2 * {LONGEST_SECONDS} * later.exists()
guard.WARM_UP = [sys.executable, "-c", sys.argv.pop(1)]
process_session.GRACE_SECONDS = 0.3
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
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def other_measurement(machine_lock_name: str) -> Iterator["subprocess.Popen[str]"]:
    """It has the lock until its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, machine_lock_name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert "has it" == process.stdout.readline().strip()
        yield process
        process.kill()


@pytest.fixture
def start(tmp_path: Path, machine_lock_name: str) -> Iterator[Start]:
    """Starts guards as the provider does; whatever is left of their sessions is killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start_guard(
        *command: str, deadline: float = LONGEST_SECONDS, warm_up: str = "", elsewhere: bool = False
    ) -> subprocess.Popen[bytes]:
        with (tmp_path / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-c",
                        GUARD,
                        machine_lock_name,
                        str(tmp_path),
                        warm_up,
                        "--deadline",
                        str(deadline),
                        "--progress",
                        str(tmp_path),
                    ),
                    *(["--warm-up=cnn"] if warm_up else []),
                    *(["--elsewhere"] if elsewhere else []),
                    *("--", sys.executable, "-c", *command),
                ],
                cwd=ROOT,
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
        for pid in process_session.session_members(process.pid):
            os.kill(pid, signal.SIGKILL)


def family_is_ready(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Waits until the command's child ignores SIGTERM."""
    wait_for(
        lambda: "ready" in (folder / "log.txt").read_text() and len(process_session.session_members(process.pid)) == 3
    )


def runs(pid: int) -> bool:
    """Whether a process goes on: it has not ended, and is not only waited for."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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
    assert code == start(command).wait(LONGEST_SECONDS)


def test_children_that_outlive_the_command_are_ended(start: Start, tmp_path: Path) -> None:
    """Also those that left its process group and ignore SIGTERM; the command's success stays one."""
    process = start(FAMILY, str(tmp_path / "end"))
    family_is_ready(process, tmp_path)
    (tmp_path / "end").touch()

    assert 0 == process.wait(LONGEST_SECONDS)
    assert [] == process_session.session_members(process.pid)


def test_end_of_file_ends_the_session(start: Start, tmp_path: Path) -> None:
    """When the starter is gone, in whatever way, the kernel closes its end of the pipe."""
    process = start(FAMILY, "never there")
    family_is_ready(process, tmp_path)
    assert process.stdin
    process.stdin.close()

    assert guard.ABANDONED == process.wait(LONGEST_SECONDS)
    assert [] == process_session.session_members(process.pid)


def test_the_token_of_a_killed_ray_is_deleted(start: Start, tmp_path: Path) -> None:
    """Ray deletes it at its end, which it does not come to where the starter is gone."""
    (tmp_path / result.RAY_TOKEN).touch()
    process = start(FAMILY, "never there")
    family_is_ready(process, tmp_path)
    assert process.stdin
    process.stdin.close()
    process.wait(LONGEST_SECONDS)

    assert not (tmp_path / result.RAY_TOKEN).exists()


def test_the_deadline_ends_the_session(start: Start) -> None:
    """With a code of its own, by which the provider names the setting."""
    process = start(FAMILY, "never there", deadline=1)

    assert guard.DEADLINE == process.wait(LONGEST_SECONDS)
    assert [] == process_session.session_members(process.pid)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone gives orphans to whom they descend from")
@pytest.mark.parametrize("end", ["of itself", "killed", "abandoned", "deadline"])
def test_no_worker_in_a_session_of_its_own_is_left(start: Start, tmp_path: Path, end: str) -> None:
    """However the run ends, also when what started the workers was killed and tells nobody of them."""
    process = start(LAUNCHER, str(tmp_path / "end"))
    log = tmp_path / "log.txt"
    wait_for(lambda: {"worker", "launcher"} <= set(log.read_text().split()))
    pids = dict(line.split() for line in log.read_text().splitlines())
    assert os.getsid(int(pids["worker"])) != process.pid

    if end == "of itself":
        (tmp_path / "end").touch()
    if end == "killed":
        os.kill(int(pids["launcher"]), signal.SIGKILL)
    if end == "abandoned":
        assert process.stdin
        process.stdin.close()
    if end == "deadline":
        (tmp_path / "later").touch()

    codes = {"of itself": 0, "killed": guard.SIGNALLED + 9, "abandoned": guard.ABANDONED, "deadline": guard.DEADLINE}
    assert codes[end] == process.wait(LONGEST_SECONDS)
    assert not runs(int(pids["worker"]))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone gives orphans to whom they descend from")
def test_orphans_that_ended_are_not_kept(start: Start, tmp_path: Path) -> None:
    """Nothing else waits for them: a script that leaves many would come to the limit of processes."""
    leaves = (
        "import os, time\nfor _ in range(20):\n  if not os.fork():\n    os.fork() or time.sleep(0.2)\n    os._exit(0)\n"
    )
    process = start(f"{leaves}print('left', flush=True)\ntime.sleep(600)")
    wait_for(lambda: "left" in (tmp_path / "log.txt").read_text())

    wait_for(lambda: 1 == len(psutil.Process(process.pid).children()))


def test_a_killed_guards_session_can_be_ended_by_its_number(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the provider does when the guard itself was killed."""
    monkeypatch.setattr(process_session, "GRACE_SECONDS", 0.3)
    process = start(FAMILY, "never there")
    family_is_ready(process, tmp_path)
    process.kill()
    process.wait()

    process_session.end_session(process.pid)

    assert [] == process_session.session_members(process.pid)


def test_waiting_for_the_lock_is_said_once_and_has_no_deadline(
    start: Start, other_measurement: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """A measurement beside another one would spoil both."""
    process = start("print('ran')")
    wait_for((tmp_path / "progress.jsonl").exists)
    (tmp_path / "later").touch()
    assert process.poll() is None
    assert "ran" not in (tmp_path / "log.txt").read_text()
    other_measurement.kill()

    assert 0 == process.wait(LONGEST_SECONDS)
    assert "ran" in (tmp_path / "log.txt").read_text()
    said, after = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert "waits" in said
    assert machine_lock.WAITED in after
    assert f" {other_measurement.pid} " in said


def test_what_is_measured_elsewhere_waits_for_nobody_here(
    start: Start, other_measurement: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """A job of a Ray cluster on other machines takes nothing of this one."""
    assert 0 == start("print('ran')", elsewhere=True).wait(LONGEST_SECONDS)
    assert "ran" in (tmp_path / "log.txt").read_text()
    assert other_measurement.poll() is None


def test_waiting_ends_with_the_starter(
    start: Start, other_measurement: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """An interrupted `up` leaves no guard in the queue."""
    process = start("pass")
    wait_for((tmp_path / "progress.jsonl").exists)
    assert process.stdin
    process.stdin.close()

    assert guard.ABANDONED == process.wait(LONGEST_SECONDS)
    assert other_measurement.poll() is None


def test_the_lock_is_held_until_nothing_of_the_run_is_left(start: Start, tmp_path: Path) -> None:
    """And by the guard alone: a process of the run that inherited it would hold it longer than the guard lives."""
    process = start(FAMILY, "never there")
    family_is_ready(process, tmp_path)
    waited_for: list[str] = []

    def end_the_run(text: str) -> None:
        waited_for.append(text)
        assert process.stdin
        process.stdin.close()

    taken = machine_lock.take(end_the_run)
    alive = [pid for pid in process_session.session_members(process.pid) if pid != process.pid]
    assert taken
    taken.close()

    assert [] == alive
    assert f" {process.pid} " in waited_for[0]
    assert [machine_lock.WAITED] == waited_for[1:]


@pytest.mark.parametrize("end", ["", "raise SystemExit('no')"])
def test_a_first_run_is_warmed_up_before_it_starts(start: Start, tmp_path: Path, end: str) -> None:
    """For its workload, and whatever comes of it: the run says by itself what it lacks."""
    warm_up = f"import sys; print('warm', *sys.argv[1:], flush=True); {end}"
    assert 0 == start("print('run')", warm_up=warm_up).wait(LONGEST_SECONDS)

    lines = (tmp_path / "log.txt").read_text().split()
    assert ["warm", "cnn", "run"] == [line for line in lines if line in ("warm", "cnn", "run")]


def test_warming_up_ends_with_the_starter_too(start: Start, tmp_path: Path) -> None:
    """And no run starts then."""
    process = start("print('run')", warm_up="import time; print('warm', flush=True); time.sleep(600)")
    wait_for(lambda: "warm" in (tmp_path / "log.txt").read_text())
    assert process.stdin
    process.stdin.close()

    assert guard.ABANDONED == process.wait(LONGEST_SECONDS)
    assert "run" not in (tmp_path / "log.txt").read_text()


def test_a_guard_without_a_session_of_its_own_ends_nothing(tmp_path: Path) -> None:
    """Called by hand, it would end the shell that calls it, and all else that runs in that terminal."""
    by_hand = shlex.join(
        [
            sys.executable,
            "-m",
            "infra.places.local.guard",
            "--deadline=9",
            f"--progress={tmp_path}",
            "--",
            sys.executable,
            "-c",
            "",
        ]
    )
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
