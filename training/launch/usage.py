"""CPU, memory and throttling of this process, sampled while it trains, and the CPU time of its container."""

import re
import resource
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from training.contract import provenance
from training.contract.clock import Stamp, process_start
from training.contract.cpu_use import CpuWait
from training.machine.cgroup import pressure_seconds, throttled_folder

INTERVAL_SECONDS = 1.0
TASKS = Path("/proc/self/task")
INTER_OP_POOL = "tf_Compute"
"""Linux's name for the threads of TensorFlow's inter-op pool."""
MOST_IN_A_TICK = 2**14
"""Largest difference of two thread ids that the system gave within one tick: half of Linux's smallest range of ids."""
CGROUP_STATS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
CGROUP_USAGE = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
"""File with a container's CPU time in cgroups of version 1; version 2 has this number in CGROUP_STATS."""


class Usage:
    """Samples this process's CPUs and memory from `start` to `stop`, once a second, in a thread of its own."""

    def __init__(self) -> None:
        self.samples: list[list[float]] = []
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="usage", daemon=True)
        self._throttled_before = throttled_seconds()
        self._queue = RunQueue()
        self._at_start: CpuWait | None = None
        self.training_wait: CpuWait | None = None
        """CPU time and waiting time from `start` to `stop`; None if the system does not count them."""

    def start(self) -> None:
        """Start to take samples; their times count from now."""
        self._at_start = self._waits()
        self._thread.start()

    def stop(self) -> None:
        """End sampling and wait for the thread."""
        self._stop.set()
        self._thread.join()
        first, last = self._at_start, self._waits()
        self.training_wait = _between(first, last) if first and last else None

    def run_wait(self) -> CpuWait | None:
        """Return CPU time and waiting time since the start of this process; None if the system does not count them.

        The field for pressure is None, because the pod may be older than the process.
        """
        now = self._waits()
        return replace(now, pressure_seconds=None) if now else None

    def _waits(self) -> CpuWait | None:
        """Return CPU time and waiting time so far; a thread that has ended counts with its last reading."""
        read = self._queue.read()
        if read is None:
            return None
        seconds, pressure = process_start().seconds_until(Stamp.now()), pressure_seconds() if provenance.pod() else None
        return CpuWait(seconds=seconds, cpu_seconds=read[0], waited_seconds=read[1], pressure_seconds=pressure)

    def throttled(self) -> float | None:
        """Return the seconds for which the cgroup's quota has held its processes back since this object was made; None
        if the system does not count them."""
        now = throttled_seconds()
        return None if now is None or self._throttled_before is None else now - self._throttled_before

    def _sample(self) -> None:
        began = before = time.monotonic()
        used = cpu_seconds()
        while not self._stop.wait(INTERVAL_SECONDS):
            now, cpu = time.monotonic(), cpu_seconds()
            cpus = (cpu - used) / (now - before)
            self.samples.append([round(now - began, 2), round(cpus, 3), float(self._process.memory_info().rss)])
            before, used = now, cpu


def _between(first: CpuWait, last: CpuWait) -> CpuWait:
    pressure = (first.pressure_seconds, last.pressure_seconds)
    return CpuWait(
        seconds=last.seconds - first.seconds,
        cpu_seconds=last.cpu_seconds - first.cpu_seconds,
        waited_seconds=last.waited_seconds - first.waited_seconds,
        pressure_seconds=None if pressure[0] is None or pressure[1] is None else pressure[1] - pressure[0],
    )


@dataclass(frozen=True)
class Thread:
    """A thread of this process."""

    started: int
    """Start of the thread, in ticks of the system's clock after the start of the system."""
    number: int
    """Id of the thread. The system gives ids in order, and begins again with low ids after the highest."""
    name: str


def threads() -> set[Thread] | None:
    """Return the threads of this process; None where the system does not list them."""
    try:
        folders = list(TASKS.iterdir())
    except OSError:
        return None
    all_threads = set()
    for folder in folders:
        with suppress(OSError):  # it ended meanwhile
            before, _, after = (folder / "stat").read_text().rpartition(")")
            all_threads.add(Thread(int(after.split()[19]), int(folder.name), before.partition("(")[2]))
    return all_threads


def pool_threads(before: set[Thread] | None, after: set[Thread] | None) -> int | None:
    """Return the number of threads in TensorFlow's intra-op pool, which computes, started between the two lists.

    TensorFlow starts it just before its inter-op pool, `tf_Compute`. The name of its threads, `tf_numa_-1_Eigen`, is
    longer than the 15 characters that Linux allows, so they go by that of the process. None where the system does not
    list threads, or no inter-op pool was started in between.
    """
    names = [thread.name for thread in _by_age((after or set()) - (before or set()))]
    if not before or INTER_OP_POOL not in names:
        return None
    earlier = names[: names.index(INTER_OP_POOL)]
    return sum(1 for name in earlier if not name.startswith("tf_") or name.startswith("tf_numa_"))


def _by_age(threads: set[Thread]) -> list[Thread]:
    """Return the threads, the oldest first: in the order of their start ticks, and within a tick of their ids. If ids
    began again at low numbers within a tick, the low ids come last."""
    highest: dict[int, int] = {}
    for thread in threads:
        highest[thread.started] = max(thread.number, highest.get(thread.started, 0))

    def age(thread: Thread) -> tuple[int, bool, int]:
        began_again = highest[thread.started] - thread.number > MOST_IN_A_TICK
        return thread.started, began_again, thread.number

    return sorted(threads, key=age)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far: user and system time of all threads."""
    return time.process_time()


def peak_memory_bytes() -> int:
    """Return the largest resident memory, in bytes, that this process ever had."""
    try:  # ru_maxrss survives exec, so a small child of a large process would inherit its peak
        peak = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        peak = None
    if peak:
        return int(peak.group(1)) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def throttled_seconds() -> float | None:
    """Return the seconds for which a CPU quota has held the cgroup's processes back so far (cgroups v2 and v1); None if
    the system does not count them."""
    limiting = throttled_folder()
    counts = _cgroup_counts(*([limiting / "cpu.stat"] if limiting else ()))
    if "throttled_usec" in counts:
        return counts["throttled_usec"] / 1e6
    return counts["throttled_time"] / 1e9 if "throttled_time" in counts else None


def container_cpu(less: float = 0.0) -> list[float] | None:
    """Return the time, in seconds since the epoch, and the CPU seconds of the whole container so far, minus `less`.

    None where the cgroup has no such count. Outside a container this may be the count of the machine.
    """
    counts = _cgroup_counts()
    try:
        used = counts["usage_usec"] / 1e6 if "usage_usec" in counts else int(CGROUP_USAGE.read_text()) / 1e9
    except (OSError, ValueError):
        return None
    return [time.time(), used - less]


def container_cpu_since(at_start: list[float] | None) -> list[list[float]] | None:
    """Return the readings of `container_cpu` at the start and now; None unless both could be read."""
    now = container_cpu() if at_start else None
    return [at_start, now] if at_start and now else None


def _cgroup_counts(*preferred: Path) -> dict[str, int]:
    for path in (*preferred, *CGROUP_STATS):
        try:
            return {name: int(count) for name, count in map(str.split, path.read_text().splitlines())}
        except (OSError, ValueError):
            continue
    return {}


class RunQueue:
    """Counts how long the threads of this process had a CPU, and how long they were ready and waited for one.

    Only Linux counts that (`/proc/PID/task/TID/schedstat`; docs.kernel.org/scheduler/sched-stats.html). A thread that
    ended between two readings counts with what was read last.
    """

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._seen: dict[str, tuple[int, int]] = {}
        self._ended = (0, 0)

    def read(self) -> tuple[float, float] | None:
        """Return the seconds for which all threads so far had a CPU, and for which they waited for one; None if the
        system does not count them."""
        try:
            threads = list(self._tasks.iterdir())
        except OSError:
            return None
        for thread in threads:
            with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                had, waited = (thread / "schedstat").read_text().split()[:2]
                self._keep(thread.name, (int(had), int(waited)))
        if not self._seen:
            return None
        totals = [self._ended, *self._seen.values()]
        return sum(had for had, _ in totals) / 1e9, sum(waited for _, waited in totals) / 1e9

    def _keep(self, thread: str, now: tuple[int, int]) -> None:
        before = self._seen.get(thread, (0, 0))
        if now[0] < before[0]:  # the reused number of a thread that ended
            self._ended = (self._ended[0] + before[0], self._ended[1] + before[1])
        self._seen[thread] = now
