"""The machine's lock: one measurement at a time, and no other user who hangs or breaks it without being named."""

import getpass
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from training.machine import machine_lock
from training.machine.machine_lock import Holder, LockError

ROOT = Path(__file__).resolve().parents[3]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract Unix sockets")
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
NOBODY = 65534
HOLD = """
import os, psutil, subprocess, sys, time
from training.machine import machine_lock
machine_lock.NAME = sys.argv[1]
if sys.argv[2] != "0":
    os.setuid(int(sys.argv[2]))
machine_lock.hold(lambda text: print(text, flush=True))
print("has it", flush=True)
if sys.argv[3:] == ["and its child"]:
    subprocess.run([sys.executable, "-c", sys.orig_argv[2], *sys.argv[1:3]])
time.sleep(60)
"""
FULL = HOLD.replace(
    "if sys.argv[3:]",
    """import socket
asking = [socket.socket(socket.AF_UNIX) for _ in range(3)]
for one in asking:
    one.setblocking(False)
    try:
        one.connect(sys.argv[1])
    except BlockingIOError:
        print("is asked no more", flush=True)
if sys.argv[3:]""",
).replace("machine_lock.hold", "machine_lock.BACKLOG = 0\nmachine_lock.hold")
"""Holds the lock where the system allows a queue of one, which is full."""
SQUAT = """
import os, socket, sys, time
os.setuid(int(sys.argv[2]))
squatter = socket.socket(socket.AF_UNIX)
squatter.bind(sys.argv[1])
print("has it", flush=True)
time.sleep(60)
"""
"""Another user's program that has the name, and answers nobody."""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(machine_lock_name: str) -> Iterator[Start]:
    """Starts programs with the lock's name, without its first byte, and a user's number."""
    started: list[subprocess.Popen[str]] = []

    def start_program(program: str = HOLD, user: int = 0, *more: str, **environment: str) -> "subprocess.Popen[str]":
        program = program.replace("sys.argv[1]", "'\\0' + sys.argv[1]")
        command = [sys.executable, "-c", program, machine_lock_name, str(user), *more]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start_program
    for process in started:
        with process:
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    """The next line that it prints."""
    assert process.stdout
    return process.stdout.readline().strip()


@linux
def test_the_second_says_at_once_whom_it_waits_for_and_follows_the_first(wording: Wording, start: Start) -> None:
    """However the first ends; it says so once."""
    first = start()
    assert "has it" == line_of(first)
    second = start()
    said = line_of(second)

    assert said.startswith("waits: ")
    assert f" {first.pid} " in said
    wording("run", said.replace(str(first.pid), "PID").replace(getpass.getuser(), "USER"))
    first.send_signal(signal.SIGKILL)
    assert [machine_lock.WAITED, "has it"] == [line_of(second), line_of(second)]


@linux
def test_who_waits_says_it_once_however_often_the_holder_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of an `up` is another holder. Only the first is asked; then it is this one's turn."""
    answers: list[Holder | ExitStack] = [Holder(11, 0), Holder(0, None), Holder(12, 0), Holder(0, None), ExitStack()]
    asked: list[bool] = []

    def answer(*, ask: bool) -> Holder | ExitStack:
        asked.append(ask)
        return answers[len(asked) - 1]

    monkeypatch.setattr(machine_lock, "_try_to_take", answer)
    said: list[str] = []
    machine_lock.take(said.append, wait=lambda _: True)

    assert [True, False, False, False, False] == asked
    assert ["11", ""] == ["".join(re.findall(r"process (\d+)", text)) for text in said]
    assert machine_lock.WAITED == said[-1]


@linux
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/usr/bin/python3\0-m\0infra.places.local.guard\0--deadline\0", ", python3 -m infra.places.local.guard"),
        ("python\0./rwi\0try\0--token=secret\0", ", python ./rwi try"),
        ("python\0\x1b[2J\0", ""),
        (f"sh\0-c\0{'x' * 99}\0", f", sh -c {'x' * 44}"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_holder_is_named_by_the_beginning_of_its_command(
    command: str | None, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows may hold a secret, and what no terminal should print is of somebody else."""
    monkeypatch.setattr(machine_lock, "PROC", tmp_path)
    (tmp_path / "7").mkdir()
    if command is not None:
        (tmp_path / "7/cmdline").write_text(command)

    assert machine_lock._command_of(7) == shown
    assert str(Holder(7, os.geteuid())).endswith(f" {getpass.getuser()}{shown}")


@linux
def test_no_file_is_in_its_way_and_no_folder_decides(start: Start, tmp_path: Path) -> None:
    """Two users have two TMPDIRs, and everybody can make files in a folder for all: a FIFO, a link, a folder."""
    for folder in (tmp_path / "one", tmp_path / "other"):
        (folder / "ray-worth-it").mkdir(parents=True)
        os.mkfifo(folder / "ray-worth-it.lock")
        (folder / "ray-worth-it" / "measurement").symlink_to("/nowhere/at/all")
    first = start(TMPDIR=str(tmp_path / "one"))
    assert "has it" == line_of(first)

    assert line_of(start(TMPDIR=str(tmp_path / "other"))).startswith("waits")


@linux
@root
@pytest.mark.parametrize(("first_user", "second_user", "owner"), [(NOBODY, 0, "nobody"), (0, NOBODY, "root")])
def test_another_user_s_measurement_is_waited_for(start: Start, first_user: int, second_user: int, owner: str) -> None:
    """It is one lock for all. Who waits is told whose it is, and how to go on if it is none."""
    first = start(user=first_user)
    assert "has it" == line_of(first)
    second = start(user=second_user)
    said = line_of(second)

    assert re.search(rf"\b{first.pid}\b.*\b{owner}\b", said)
    assert f"kill {first.pid}" in said
    first.kill()
    assert [machine_lock.WAITED, "has it"] == [line_of(second), line_of(second)]


@linux
@root
def test_another_user_who_has_the_name_and_answers_nobody_hangs_nothing_silently(start: Start) -> None:
    """The kernel tells root whose it is; the message has the line."""
    squatter = start(SQUAT, NOBODY)
    assert "has it" == line_of(squatter)
    second = start()

    assert "ss -xlp | grep ray-worth-it" in line_of(second)  # not prose: a command
    squatter.kill()
    assert [machine_lock.WAITED, "has it"] == [line_of(second), line_of(second)]


@linux
def test_what_the_holder_starts_does_not_wait_for_it(start: Start) -> None:
    """An entry point under its guard, the program under `rwi up`; another process of this machine does."""
    first = start(HOLD, 0, "and its child")

    assert ["has it", "has it"] == [line_of(first), line_of(first)]


@linux
def test_what_the_holder_starts_recognises_it_when_its_queue_is_full(start: Start) -> None:
    """A benchmark makes more runs than the 128 askers that some systems allow: each would wait for its own parent."""
    first = start(FULL, 0, "and its child")
    lines = [line_of(first) for _ in range(4)]

    assert "is asked no more" in lines  # not prose: a word of this test's own program
    assert 2 == lines.count("has it")
    assert [] == [line for line in lines if line.startswith("waits")]


@linux
def test_it_can_be_taken_twice_by_one_process_and_is_free_afterwards() -> None:
    """The second time there is nothing to take, and nothing to free."""
    said: list[str] = []
    outer = machine_lock.take(said.append)
    assert outer
    with outer:
        inner = machine_lock.take(said.append)
        assert inner
        inner.close()
        assert isinstance(machine_lock.take_name(machine_lock.NAME), Holder)
    free = machine_lock.take_name(machine_lock.NAME)
    assert isinstance(free, ExitStack)
    free.close()

    assert [] == said


@linux
def test_who_no_longer_wants_it_is_not_kept(start: Start) -> None:
    """A guard whose starter went away leaves the queue."""
    first = start()
    assert "has it" == line_of(first)

    assert machine_lock.take(lambda _: None, wait=lambda _: False) is None


def test_where_it_is_a_file_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    """On systems without abstract sockets; in a folder of this user's own."""
    path = tmp_path / "lock"
    first = machine_lock.take_file(path)
    assert isinstance(first, ExitStack)

    assert Holder(os.getpid(), os.geteuid()) == machine_lock.take_file(path)
    assert 0o600 == path.stat().st_mode & 0o777
    first.close()
    second = machine_lock.take_file(path)
    assert isinstance(second, ExitStack)
    second.close()


def make_fifo(path: Path) -> None:
    """As it opens: a FIFO without a reader waits for one."""
    os.mkfifo(path)


def make_link(path: Path) -> None:
    """To a file that is ours: what it points to could be anything."""
    path.with_name("elsewhere").touch()
    path.symlink_to(path.with_name("elsewhere"))


def make_foreign(path: Path) -> None:
    """Another user's file, which that user could lock for ever."""
    path.touch(0o666)
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "obstruct", [make_fifo, make_link, Path.mkdir, pytest.param(make_foreign, marks=root)], ids=lambda f: f.__name__
)
def test_where_it_is_a_file_nothing_else_passes_for_it(tmp_path: Path, obstruct: Callable[[Path], None]) -> None:
    """At once, with the path; nothing waits, and nothing is followed."""
    path = tmp_path / "lock"
    obstruct(path)
    refused: list[str] = []

    def take() -> None:
        try:
            machine_lock.take_file(path)
        except LockError as error:
            refused.append(str(error))

    taking = threading.Thread(target=take, daemon=True)
    taking.start()
    taking.join(LONGEST_SECONDS)

    assert not taking.is_alive()
    assert [True] == [str(path) in text and text.endswith("remove it") for text in refused]


@linux
def test_a_full_queue_of_askers_hangs_nobody() -> None:
    """A holder that takes no connection leaves who asks without an answer, and not waiting for one."""
    seen: list[object] = []
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(machine_lock.NAME)
        squatter.listen(0)
        asking = [threading.Thread(target=ask, args=(seen,), daemon=True) for _ in range(4)]
        for one in asking:
            one.start()
            one.join(LONGEST_SECONDS)
        alive = [one for one in asking if one.is_alive()]

    assert [] == alive
    assert Holder(os.getpid(), os.geteuid()) == seen[0]
    assert Holder(0, None) == seen[-1]


def test_an_ancestor_that_the_system_hides_hides_no_nearer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc is mounted with hidepid=1, a login of root's is; a run still knows that its guard has the lock."""
    guard = psutil.Process().parent()
    assert guard
    real = psutil.Process.parent

    def parent(process: psutil.Process) -> psutil.Process | None:
        if process.pid == guard.pid:
            raise psutil.AccessDenied(process.pid)
        return real(process)

    monkeypatch.setattr(psutil.Process, "parent", parent)

    assert {os.getpid(), guard.pid} == machine_lock._family()


@linux
def test_who_waits_for_long_keeps_no_run_of_the_holder_from_recognising_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark starts runs for an hour while another measurement waits: its queue has room for each of them."""
    monkeypatch.setattr(machine_lock, "BACKLOG", 2)
    monkeypatch.setattr(machine_lock, "_family", set)
    polls = iter(range(20))
    with socket.socket(socket.AF_UNIX) as holder:
        holder.bind(machine_lock.NAME)
        holder.listen(machine_lock.BACKLOG)
        waiting = machine_lock.take(lambda _: None, wait=lambda _: next(polls, None) is not None)

        assert waiting is None
        assert Holder(os.getpid(), os.geteuid()) == machine_lock.take_name(machine_lock.NAME)


def ask(seen: list[object]) -> None:
    """Try to take the lock, and keep the answer."""
    seen.append(machine_lock.take_name(machine_lock.NAME))
