"""Whose the CPU time of a machine is, by what /proc says: a run's, that of what started it, others', the host's."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.golden import Wording
from training.launch.usage import RunQueue
from training.machine.cpu_time import CpuTime, most_of_others

SHELL, MAKE, ENGINE, PROVIDER, GUARD, ARM, RANK, SPINNER = range(100, 108)
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass
class Machine:
    """A /proc with two CPUs, on which one run goes on under Pulumi; counts are ticks."""

    proc: Path
    parents: dict[int, int] = field(
        default_factory=lambda: {
            SHELL: 1, MAKE: SHELL, ENGINE: MAKE, PROVIDER: ENGINE, GUARD: PROVIDER, ARM: GUARD, RANK: ARM,
            SPINNER: SHELL,
        }
    )  # fmt: skip
    names: dict[int, str] = field(default_factory=lambda: {ENGINE: "pulumi", SPINNER: "a (b) c", PROVIDER: "pulumi-py"})
    own: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    cpus: list[list[int]] = field(default_factory=lambda: [[0] * 10, [0] * 10])

    def write(self) -> None:
        """All of it."""
        for folder in self.proc.glob("[0-9]*"):
            (folder / "stat").unlink()
            folder.rmdir()
        lines = [f"cpu{n} {' '.join(map(str, counts))}" for n, counts in enumerate(self.cpus)]
        total = " ".join(str(sum(column)) for column in zip(*self.cpus, strict=True))
        (self.proc / "stat").write_text("\n".join([f"cpu  {total}", *lines, "intr 1 2 3", "ctxt 5"]) + "\n")
        for pid, parent in self.parents.items():
            folder = self.proc / str(pid)
            folder.mkdir()
            name, own, ended = self.names.get(pid, "python"), self.own.get(pid, 0), self.ended.get(pid, 0)
            before = f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 0 0 0 0 0"
            (folder / "stat").write_text(f"{before} {own} 0 {ended} 0 20 0 1 0 {10 * pid} 0 0\n")

    def take(self, pid: int, ticks: int) -> None:
        """A process computes, by its program, on CPU 0."""
        self.own[pid] = self.own.get(pid, 0) + ticks
        self.cpus[0][0] += ticks

    def end(self, pid: int, heir: int | None) -> None:
        """It ends; who waited for it gets its time, if anybody did."""
        own = self.own.pop(pid, 0) + self.ended.pop(pid, 0)
        if heir:
            self.ended[heir] = self.ended.get(heir, 0) + own
        del self.parents[pid]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """As it is before a run."""
    made = Machine(tmp_path)
    made.write()
    return made


def reader(machine: Machine, cpus: Sequence[int] = (0, 1)) -> CpuTime:
    """Of the guard's run."""
    return CpuTime(cpus, GUARD, machine.proc)


def test_every_program_s_time_is_somebody_s(machine: Machine) -> None:
    """Its own processes' the run's, the engine's and its provider's the stack's, and the rest is what others took."""
    times = reader(machine)
    before = times.read()
    for pid, ticks in {ARM: 300, RANK: 500, GUARD: 2, PROVIDER: 5, ENGINE: 20, MAKE: 1, SPINNER: 900}.items():
        machine.take(pid, ticks)
    machine.cpus[1][7] += 40
    machine.cpus[1][6] += 33  # interrupts are no program's
    machine.write()
    now = times.read()

    assert 800 == round((now.run - before.run) / TICK)
    assert 28 == round((now.stack - before.stack) / TICK)
    assert 1728 == round((now.programs - before.programs) / TICK)
    assert 40 == round((now.stolen - before.stolen) / TICK)
    assert "a (b) c" == most_of_others(before, now)[0][0]


def test_only_the_cpus_of_the_run_count(machine: Machine) -> None:
    """What others do on the other 62 of a large machine is not taken from a run in a container with two."""
    times = reader(machine, [1])
    before = times.read()
    machine.take(SPINNER, 900)
    machine.cpus[1][2] += 7
    machine.write()

    assert 7 == round((times.read().programs - before.programs) / TICK)


def test_the_time_of_a_process_that_ended_stays_the_run_s(machine: Machine) -> None:
    """Whether somebody waited for it or nobody: who ignores SIGCHLD, as Ray's raylet, gets nothing from the system."""
    times = reader(machine)
    before = times.read()
    machine.take(RANK, 500)
    machine.write()
    times.follow()
    machine.end(RANK, None)
    machine.take(ARM, 10)
    machine.write()
    ignored = times.read()
    machine.take(ARM, 300)
    machine.end(ARM, GUARD)
    machine.write()
    waited_for = times.read()

    assert 510 == round((ignored.run - before.run) / TICK)
    assert 810 == round((waited_for.run - before.run) / TICK)


def test_a_process_that_came_and_ended_between_two_whole_readings_is_the_run_s(machine: Machine) -> None:
    """As Ray's workers that nobody needed, with those that they started; another program's are not."""
    times = reader(machine)
    before = times.read()
    came, its_own, stranger = range(200, 203)
    machine.parents |= {came: RANK, its_own: came, stranger: SPINNER}
    for pid, ticks in {came: 100, its_own: 30, stranger: 7}.items():
        machine.take(pid, ticks)
    machine.write()
    times.follow()
    for pid in (its_own, came, stranger):
        machine.end(pid, None)
    machine.write()
    times.follow()
    now = times.read()

    assert 130 == round((now.run - before.run) / TICK)
    assert 137 == round((now.programs - before.programs) / TICK)


def test_a_number_that_is_given_anew_is_another_process(machine: Machine) -> None:
    """What the first one had is kept, and the second one's is its own."""
    times = reader(machine)
    machine.take(RANK, 500)
    machine.write()
    before = times.read()
    machine.own[RANK] = 20
    machine.write()
    stat = machine.proc / str(RANK) / "stat"
    stat.write_text(stat.read_text().replace(f" {10 * RANK} 0 0", " 99999 0 0"))

    assert 20 == round((times.read().run - before.run) / TICK)


def test_a_parent_s_number_that_is_given_anew_inherits_nothing(machine: Machine) -> None:
    """What the first one's children had before is not counted again."""
    times = reader(machine)
    for pid, ticks in {ARM: 10, RANK: 50}.items():
        machine.take(pid, ticks)
    machine.ended[ARM] = 100
    machine.write()
    before = times.read()
    machine.end(RANK, None)
    machine.end(ARM, None)
    machine.parents[ARM] = GUARD
    machine.take(ARM, 5)
    machine.write()
    stat = machine.proc / str(ARM) / "stat"
    stat.write_text(stat.read_text().replace(f" {10 * ARM} 0 0", " 99999 0 0"))

    assert 5 == round((times.read().run - before.run) / TICK)


@pytest.mark.parametrize(("heir", "unread"), [(None, 0.4 * 2), (ARM, 0.0)], ids=["nobody waits", "its parent waits"])
def test_what_a_process_had_after_it_was_last_read_is_in_the_resolution(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, heir: int | None, unread: float
) -> None:
    """Where nobody waits for it, that counts as another program's: on each CPU as much as time has passed, at most."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    times = reader(machine)
    before = times.read()
    machine.take(RANK, 500)
    machine.write()
    now[0] = 10.0
    times.follow()
    machine.take(RANK, 40)
    machine.end(RANK, heir)
    machine.write()
    now[0] = 10.4
    after = times.read()

    assert (540 if heir else 500) == round((after.run - before.run) / TICK)
    assert 540 == round((after.programs - before.programs) / TICK)
    assert unread - TICK == pytest.approx(after.resolution - before.resolution)  # there is one process less


@pytest.mark.parametrize(("parent", "runs"), [(SPINNER, 500), (ARM, 570)], ids=["another program's", "the run's own"])
def test_a_number_that_is_given_anew_between_whole_readings_is_whose_parent_s(
    machine: Machine, parent: int, runs: int
) -> None:
    """A program that gets the number of the run's ended process computes for itself, and so do its children."""
    times = reader(machine)
    before, child = times.read(), 200
    machine.take(RANK, 500)
    machine.write()
    times.follow()
    machine.end(RANK, None)
    machine.parents |= {RANK: parent, child: RANK}
    machine.take(RANK, 60)
    machine.take(child, 10)
    for _ in range(2):
        machine.write()
        stat = machine.proc / str(RANK) / "stat"
        stat.write_text(stat.read_text().replace(f" {10 * RANK} 0 0", " 99999 0 0"))
        times.follow()
    now = times.read()

    assert runs == round((now.run - before.run) / TICK)


@pytest.mark.parametrize("absent", ["stat", str(GUARD)])
def test_a_system_that_does_not_say_it_is_an_error(machine: Machine, absent: str) -> None:
    """And nobody takes it for 0."""
    gone = machine.proc / absent
    for path in [*gone.glob("*"), gone] if gone.is_dir() else [gone]:
        path.rmdir() if path.is_dir() else path.unlink()

    with pytest.raises((OSError, ValueError)):
        reader(machine).read()


def test_cpus_that_it_does_not_have_are_an_error(wording: Wording, machine: Machine) -> None:
    """Likewise."""
    with pytest.raises(ValueError, match="CPUs") as refused:
        reader(machine, [9]).read()
    wording("run", str(refused.value))


def test_the_waiting_of_a_thread_that_ended_is_kept(tmp_path: Path) -> None:
    """And one with its number begins anew."""
    queue = RunQueue(tmp_path)

    def write(thread: str, text: str) -> None:
        (tmp_path / thread).mkdir(exist_ok=True)
        (tmp_path / thread / "schedstat").write_text(text)

    write("1", "5000000000 1000000000 7\n")
    write("2", "3000000000 500000000 7\n")
    first = queue.read()
    write("2", "1000000000 250000000 1\n")
    second = queue.read()
    (tmp_path / "2" / "schedstat").unlink()

    assert (8.0, 1.5) == first
    assert (9.0, 1.75) == second
    assert (9.0, 1.75) == queue.read()


def test_a_system_that_does_not_count_it_gives_nothing(tmp_path: Path) -> None:
    """No folder, or no file in it."""
    (tmp_path / "1").mkdir()

    assert None is RunQueue(tmp_path).read()
    assert None is RunQueue(tmp_path / "absent").read()


SIBLINGS = """
import os, sys, threading, time
from training.launch.usage import RunQueue
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
queue, stop = RunQueue(), threading.Event()
before = queue.read()
if os.fork() == 0:
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
    os._exit(0)
end = time.monotonic() + 0.5
while time.monotonic() < end: pass
after = queue.read()
os.wait()
print(after[1] - before[1] > 0.1 and after[0] - before[0] < 0.4)
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not count it")
def test_two_processes_on_one_cpu_wait_for_each_other() -> None:
    """As the system counts it, of real ones."""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", SIBLINGS], cwd=root, stdout=subprocess.PIPE, text=True, check=True)

    assert "True" == done.stdout.strip()


IGNORES = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
    os._exit(0)
time.sleep(0.1)
try: os.waitpid(pid, 0)
except ChildProcessError: pass
print("ended", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone counts it")
def test_nothing_is_lost_of_a_real_process_that_nobody_waits_for() -> None:
    """0.4 seconds of CPU, in a child that the system removes without a word to its parent."""
    times = CpuTime(os.sched_getaffinity(0), os.getpid())
    before = times.read()
    with subprocess.Popen(
        [sys.executable, "-c", IGNORES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin
        times.read()
        while not _has_ended(parent):
            time.sleep(0.05)
            times.read()
        now = times.read()
        parent.stdin.close()

    assert 0.3 <= now.run - before.run


def _has_ended(parent: "subprocess.Popen[str]") -> bool:
    assert parent.stdout
    return bool(select.select([parent.stdout], [], [], 0)[0])
