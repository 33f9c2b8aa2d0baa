"""CPU, memory and throttling of this process, sampled while it trains, and the CPU time of its container."""

import re
import resource
import sys
import threading
import time
from pathlib import Path

import psutil

INTERVAL_SECONDS = 1.0
CGROUP_STATS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
CGROUP_USAGE = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
"""Version 1's; version 2 has it among the statistics."""


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
    counts = _cgroup_counts()
    if "throttled_usec" in counts:
        return counts["throttled_usec"] / 1e6
    return counts["throttled_time"] / 1e9 if "throttled_time" in counts else None


def container_cpu(less: float = 0.0) -> list[float] | None:
    """Now, in seconds since the epoch, and the CPU seconds of the whole container so far, minus `less`.

    None where the cgroup has no such count. Outside a container this may be the count of the machine.
    """
    counts = _cgroup_counts()
    try:
        used = counts["usage_usec"] / 1e6 if "usage_usec" in counts else int(CGROUP_USAGE.read_text()) / 1e9
    except (OSError, ValueError):
        return None
    return [time.time(), used - less]


def container_cpu_since(at_start: list[float] | None) -> list[list[float]] | None:
    """What `container_cpu` gave at the start, and what it gives now; None unless both could be read."""
    now = container_cpu() if at_start else None
    return [at_start, now] if at_start and now else None


def _cgroup_counts() -> dict[str, int]:
    for path in CGROUP_STATS:
        try:
            return {name: int(count) for name, count in map(str.split, path.read_text().splitlines())}
        except (OSError, ValueError):
            continue
    return {}
