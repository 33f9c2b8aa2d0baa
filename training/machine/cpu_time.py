"""Divides this machine's CPU time among a run, the programs which started it, other programs, and the host.

Only Linux reports this. It counts in ticks of 10 ms, mostly, and each process in whole ones. Standard library only.
"""

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
USER, NICE, SYSTEM, STOLEN = 0, 1, 2, 7
"""Positions of the numbers in a CPU's line of /proc/stat; proc(5). Interrupts are left out, because they belong to no
program. Those of a run's own exchange over the network are among them, too; with CONFIG_IRQ_TIME_ACCOUNTING they are
not in the time of the run's processes."""
ENGINE = "pulumi"
"""Prefix of the names of Pulumi's own programs."""


@dataclass(frozen=True)
class Process:
    """A process of this machine, as it was when it was read."""

    pid: int
    parent: int
    name: str
    own: int
    """CPU time of the process's own threads, in ticks."""
    ended: int
    """CPU time, in ticks, of the children for whose end the process waited, and of their children likewise."""
    started: int
    """Start of the process, in ticks after the system's start; it tells processes with a reused number apart."""


@dataclass(frozen=True)
class Reading:
    """CPU seconds used so far on the chosen CPUs, by whom they were used."""

    at: float
    """Time of the reading on the monotonic clock."""
    programs: float
    """CPU seconds of all programs and of the kernel's own threads."""
    stolen: float
    """CPU seconds that the host of this virtual machine took."""
    run: float
    stack: float
    """CPU seconds of the processes that started the run, and of Pulumi's other programs."""
    resolution: float
    """Largest error of these numbers, in seconds: a tick for each process that is counted separately, and the CPU time
    that processes without a waiting parent can have had after they were last read, which is in `programs` alone."""
    others: dict[int, tuple[str, float]]
    """Name and CPU seconds of each other process, by its number."""


class CpuTime:
    """Reads which programs use the CPU time. A run is every process below `root`, which has to adopt processes that
    lose their parent (`process_session.adopt`).

    When a process has ended, the system adds its time to that of the parent that waits for it. A parent that ignores
    SIGCHLD, as Ray's raylet does, gets nothing. So the run's processes are read repeatedly (`follow`), and an ended
    process counts with what was read last.
    """

    def __init__(self, cpus: Collection[int], root: int, proc: Path = PROC) -> None:
        self._cpus, self._root, self._proc = cpus, root, proc
        self._tick = 1 / os.sysconf("SC_CLK_TCK")
        self._run: dict[int, Process] = {}
        """The processes of the run and `root`, as last read."""
        self._strangers: set[int] = set()
        """Numbers of all processes that are not of the run."""
        self._lost = 0
        """CPU time, in ticks, of ended processes of the run that the system added to no other process's."""
        self._unread = 0.0
        """CPU seconds that those ended processes can have had after they were last read."""
        self._kept_at = time.monotonic()

    def read(self) -> Reading:
        """Return the CPU seconds used up to now. Raises OSError or ValueError if this system does not tell them."""
        programs, stolen = self._of_cpus()
        at, every = time.monotonic(), [self._process(folder.name) for folder in self._proc.iterdir()]
        processes = {process.pid: process for process in every if process}
        if self._root not in processes:
            raise ValueError(f"{self._proc} does not have process {self._root}")
        below = _below(processes)
        run = set(_family(self._root, below)) - {self._root}
        self._keep({pid: processes[pid] for pid in (self._root, *run)})
        self._strangers = processes.keys() - self._run.keys()
        before = _ancestors(self._root, processes)
        engine = [pid for pid in before if processes[pid].name.startswith(ENGINE)]
        of_engine = set(_family(engine[-1], below)) - run - {self._root} if engine else set()
        stack = sum(processes[pid].own + processes[pid].ended for pid in of_engine)
        stack += sum(processes[pid].own for pid in {self._root, *before} - of_engine)
        ran = sum(processes[pid].own + processes[pid].ended for pid in run) + processes[self._root].ended
        known = run | of_engine | {self._root, *before}
        return Reading(
            at=at,
            programs=programs * self._tick,
            stolen=stolen * self._tick,
            run=(ran + self._lost) * self._tick,
            stack=stack * self._tick,
            resolution=(len(known) + len(self._cpus)) * self._tick + self._unread,
            others={
                pid: (process.name, process.own * self._tick) for pid, process in processes.items() if pid not in known
            },
        )

    def follow(self) -> None:
        """Read only the processes of the run, including those that started since the last reading.

        This takes 11 µs of CPU for each, and 0.15 ms to list the numbers of all processes if there are 146.
        """
        names = os.listdir(self._proc)  # noqa: PTH208 (a seventh of the time, and it is the run's CPUs that pay)
        every = {int(name) for name in names if name.isdigit()}
        read = [self._process(str(pid)) for pid in every - self._strangers]
        processes = {process.pid: process for process in read if process}
        if self._root not in processes:
            return
        known = {pid for pid, process in self._run.items() if pid in processes and _is_same(process, processes[pid])}
        below = _below({pid: process for pid, process in processes.items() if pid not in known})
        self._keep({each: processes[each] for pid in known for each in _family(pid, below)})
        self._strangers = every - self._run.keys()

    def _keep(self, now: dict[int, Process]) -> None:
        """Remember these processes of the run, and count the time of ended ones as lost unless the system added it to
        their next living ancestor's."""
        had: dict[int, int] = {}
        going_on = {pid for pid, process in self._run.items() if pid in now and _is_same(process, now[pid])}
        for pid in self._run.keys() - going_on:
            process = self._run[pid]
            heir = process.parent
            while heir not in going_on and heir in self._run:
                heir = self._run[heir].parent
            heir = heir if heir in going_on else self._root
            had[heir] = had.get(heir, 0) + process.own + process.ended
        kept_at = time.monotonic()
        lost = sum(max(0, ticks - (now[heir].ended - self._run[heir].ended)) for heir, ticks in had.items())
        if lost:
            self._lost += lost
            self._unread += (kept_at - self._kept_at) * len(self._cpus)
        self._run, self._kept_at = now, kept_at

    def _of_cpus(self) -> tuple[int, int]:
        """Return the ticks of all programs on the chosen CPUs, and the ticks that the host took."""
        lines = [line.split() for line in (self._proc / "stat").read_text().splitlines()]
        counts = [count for name, *count in filter(None, lines) if self._is_asked_for(name)]
        if not counts:
            raise ValueError(f"{self._proc / 'stat'} has none of the CPUs {sorted(self._cpus)}")
        programs = sum(int(line[which]) for line in counts for which in (USER, NICE, SYSTEM))
        return programs, sum(int(line[STOLEN]) for line in counts if len(line) > STOLEN)

    def _is_asked_for(self, name: str) -> bool:
        number = name.removeprefix("cpu")
        return number != name and number.isdigit() and int(number) in self._cpus

    def _process(self, name: str) -> Process | None:
        """Return the process with this number, as it is now; None if there is none, or the name is no number."""
        if not name.isdigit():
            return None
        try:  # by descriptor: half the time of `read_text`, and it is the run's CPUs that pay
            stat = os.open(f"{self._proc}/{name}/stat", os.O_RDONLY)
            try:
                text = os.read(stat, 4096).decode(errors="replace")
            finally:
                os.close(stat)
        except OSError:
            return None
        before, _, after = text.rpartition(")")
        fields = after.split(maxsplit=20)
        return Process(
            pid=int(name),
            parent=int(fields[1]),
            name=before.partition("(")[2],
            own=int(fields[11]) + int(fields[12]),  # fields 14 and 15: the two before the name are cut off
            ended=int(fields[13]) + int(fields[14]),
            started=int(fields[19]),
        )


def most_of_others(before: Reading, now: Reading) -> list[tuple[str, float]]:
    """Return the names of other programs with the CPUs that each took between the two readings, the largest first."""
    taken: dict[str, float] = {}
    for pid, (name, seconds) in now.others.items():
        _, earlier = before.others.get(pid, ("", 0.0))
        kind = name.partition("/")[0]  # the kernel's workers have what they do in their names
        taken[kind] = taken.get(kind, 0.0) + seconds - (earlier if earlier <= seconds else 0.0)
    cpus = [(name, seconds / (now.at - before.at)) for name, seconds in taken.items()]
    return sorted(cpus, key=lambda name_and_cpus: -name_and_cpus[1])


def _is_same(before: Process, now: Process) -> bool:
    """Return whether both readings are of the same process: the system reuses the numbers of ended processes."""
    return before.started == now.started


def _below(processes: dict[int, Process]) -> dict[int, list[int]]:
    """Return the numbers of the children of each process, by the parent's number."""
    below: dict[int, list[int]] = {}
    for process in processes.values():
        below.setdefault(process.parent, []).append(process.pid)
    return below


def _family(root: int, below: dict[int, list[int]]) -> Iterator[int]:
    """Yield the number of a process, and those of all its descendants."""
    pending = [root]
    while pending:
        pid = pending.pop()
        yield pid
        pending += below.get(pid, [])


def _ancestors(pid: int, processes: dict[int, Process]) -> list[int]:
    """Return the process's ancestors, the nearest first."""
    ancestors: list[int] = []
    while (pid := processes[pid].parent) in processes:
        ancestors.append(pid)
    return ancestors
