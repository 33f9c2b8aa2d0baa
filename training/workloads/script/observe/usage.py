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
"""With more every second is dropped, and they are taken half as often."""
PROCESS = Path("/proc/self")


class Usage:
    """CPU seconds at the end of each step, and samples at the end of a step.

    A thread that samples would be in the way of a script that forks.
    """

    def __init__(self) -> None:
        self.cpu_at_step: list[float] = []
        self.samples: list[list[float]] = []
        """[seconds since the first step, CPUs in use, resident bytes], about once a second."""
        self._every = SAMPLE_SECONDS
        self._first = self._before = (0.0, 0.0)

    def step(self, now: float) -> None:
        """A step has ended `now`, in seconds of the monotonic clock."""
        cpu = time.process_time()
        self.cpu_at_step.append(cpu)
        if len(self.cpu_at_step) == 1:
            self._first = self._before = (now, cpu)
        elif now - self._before[0] >= self._every:
            self._sample(now, cpu)

    def _sample(self, now: float, cpu: float) -> None:
        began, used = self._before
        self._before = (now, cpu)
        resident = _resident_bytes()
        if resident is None:
            return
        self.samples.append([round(now - self._first[0], 2), round((cpu - used) / (now - began), 3), float(resident)])
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[::2]
            self._every *= 2


def _resident_bytes() -> int | None:
    try:
        return int((PROCESS / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_memory_bytes() -> int | None:
    """The most memory that this process had resident."""
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
    """[CPUs that a thread may use, CPU seconds of the threads that may use these], for each such set of CPUs.

    By thread, because OpenMP may bind each of its own, and a process says what its first thread may use.
    """
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
