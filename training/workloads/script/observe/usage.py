"""CPU time, memory and CPUs of this process, as the system counts them. What it does not count is None."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 1.0
MOST_SAMPLES = 2000
"""Most samples. When there are more, every second sample is dropped, and samples are taken half as often."""
PROCESS = Path("/proc/self")
PRESSURE = Path("/sys/fs/cgroup/cpu.pressure")
NODE = "TRAINING_NODE"
"""Environment variable of a pod."""


class Usage:
    """CPU seconds at the end of each step, and samples of the CPU and memory use. Samples are taken at the end of a
    step, because a thread that takes samples would disturb a script that forks."""

    def __init__(self) -> None:
        self.cpu_at_step: list[float] = []
        self.samples: list[list[float]] = []
        """[seconds since the first step, CPUs in use, resident bytes], about once a second."""
        self._queue = _RunQueue()
        self._began = time.monotonic()
        self._waits: list[list[float | None]] = []
        """Waits for CPUs at the end of the first step, and at the latest sample."""
        self._every = SAMPLE_SECONDS
        self._first = self._before = (0.0, 0.0)

    def step(self, now: float, new_steps: int = 1) -> None:
        """Record that a step has ended at `now`, in seconds of the monotonic clock; it is the last of `new_steps` steps
        since the previous call."""
        cpu, is_first = time.process_time(), not self.cpu_at_step
        before = cpu if is_first else self.cpu_at_step[-1]
        self.cpu_at_step += [before + (cpu - before) * step / new_steps for step in range(1, new_steps + 1)]
        if is_first:
            self._first = self._before = (now, cpu)
            self._waits = [self._read(now)]
        elif now - self._before[0] >= self._every:
            self._sample(now, cpu)

    def waits(self) -> dict[str, list[float | None]] | None:
        """Return how long this process waited for CPUs: wall-clock seconds, seconds on a CPU, seconds of waiting for a
        CPU, and in a pod the wall-clock seconds in which any process of the pod waited. `training` is from the first
        step to the last sample (to now without samples), `run` from the start to now. Return None if not counted."""
        if not self._waits or self._waits[0][1] is None:
            return None
        now = self._read(time.monotonic())
        first, last = self._waits[0], self._waits[-1] if len(self._waits) > 1 else now
        gone = [b - a if a is not None and b is not None else None for a, b in zip(first, last)]  # noqa: B905 (3.9)
        return {"training": gone, "run": [*now[:3], None]}  # a pod may be older than the run

    def _read(self, now: float) -> list[float | None]:
        had, waited = self._queue.read() or (None, None)
        pressure = _pressure_seconds() if NODE in os.environ else None
        return [now - self._began, had, waited, pressure]

    def _sample(self, now: float, cpu: float) -> None:
        began, used = self._before
        self._waits[1:] = [self._read(now)]
        self._before = (now, cpu)
        resident = _resident_bytes()
        if resident is None:
            return
        self.samples.append([round(now - self._first[0], 2), round((cpu - used) / (now - began), 3), float(resident)])
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[::2]
            self._every *= 2


class _RunQueue:
    """Reads the time that threads wait for CPUs as `training.launch.usage` does, which cannot be imported here."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        self._ended = (0, 0)

    def read(self) -> tuple[float, float] | None:
        """Return the seconds that all threads so far were on a CPU, and the seconds that they waited for a CPU; None if
        the system does not count them."""
        try:
            threads = list((PROCESS / "task").iterdir())
        except OSError:
            return None
        for thread in threads:
            with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                now = (thread / "schedstat").read_text().split()
                before, after = self._seen.get(thread.name, (0, 0)), (int(now[0]), int(now[1]))
                if after[0] < before[0]:  # the reused number of a thread that ended
                    self._ended = (self._ended[0] + before[0], self._ended[1] + before[1])
                self._seen[thread.name] = after
        if not self._seen:
            return None
        totals = [self._ended, *self._seen.values()]
        return sum(had for had, _ in totals) / 1e9, sum(waited for _, waited in totals) / 1e9


def _pressure_seconds() -> float | None:
    """Return the seconds in which any process of the pod waited for a CPU, as
    `training.machine.cgroup.pressure_seconds`, which cannot be imported here; None if not known."""
    try:
        some = re.search(r"^some .*total=(\d+)", PRESSURE.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(some.group(1)) / 1e6 if some else None


def _resident_bytes() -> int | None:
    try:
        return int((PROCESS / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_memory_bytes() -> int | None:
    """Return the largest resident memory of this process so far, in bytes; None if the system does not tell it."""
    try:  # ru_maxrss survives exec, so a small child of a large process would inherit its peak
        peak = re.search(r"^VmHWM:\s*(\d+) kB", (PROCESS / "status").read_text(), re.MULTILINE)
    except OSError:
        peak = None
    if peak:
        return int(peak.group(1)) * 1024
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def thread_cpus() -> list[list[Any]] | None:
    """Return [CPUs that a thread may use, CPU seconds of the threads with these CPUs] for each such set of CPUs; None
    if not known. Threads are read one by one, because OpenMP may bind each of its threads, and a process tells only the
    CPUs of its first thread."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    seconds: dict[tuple[int, ...], float] = {}
    try:
        threads = list((PROCESS / "task").iterdir())
    except OSError:
        return None
    for thread in threads:
        with suppress(OSError):  # it ended meanwhile
            after_name = (thread / "stat").read_text().rpartition(")")[2].split()
            ticks = int(after_name[11]) + int(after_name[12])  # user's and system's: fields 14 and 15
            cpus = tuple(sorted(os.sched_getaffinity(int(thread.name))))
            seconds[cpus] = seconds.get(cpus, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return [[list(cpus), used] for cpus, used in seconds.items()]
