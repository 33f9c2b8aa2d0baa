"""CPU, memory and throttling of this process, sampled while it trains. Not of the machine, and not of children."""

import re
import resource
import sys
import threading
import time
from pathlib import Path

import psutil

INTERVAL_SECONDS = 1.0
CGROUP_STATS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))


class Usage:
    """Samples this process from `start` to `stop`, about once a second, in a thread that sleeps in between."""

    def __init__(self) -> None:
        self.samples: list[list[float]] = []
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="usage", daemon=True)
        self._throttled_before = throttled_seconds()

    def start(self) -> None:
        """Begin to sample; time 0 is now."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling and wait for the thread."""
        self._stop.set()
        self._thread.join()

    def throttled(self) -> float | None:
        """Seconds that the cgroup held its processes back since this object was made; None where it has no quota."""
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


def cpu_seconds() -> float:
    """CPU time of this process so far, user and system, all threads."""
    return time.process_time()


def peak_memory_bytes() -> int:
    """The most memory this process ever had resident."""
    try:  # ru_maxrss survives exec, so a small child of a large process would inherit its peak
        peak = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        peak = None
    if peak:
        return int(peak.group(1)) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def throttled_seconds() -> float | None:
    """Time the cgroup's CPU quota has held its processes back so far (v2 and v1); None where there is no such count."""
    for path in CGROUP_STATS:
        try:
            counts = dict(line.split() for line in path.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if "throttled_usec" in counts:
            return int(counts["throttled_usec"]) / 1e6
        if "throttled_time" in counts:
            return int(counts["throttled_time"]) / 1e9
    return None
