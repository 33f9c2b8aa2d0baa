"""CPU quota and memory limit of the cgroups that this process is in, versions 1 and 2. Standard library only."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED_BYTES = 2**62
"""Memory limits from this number of bytes on mean that there is no limit: cgroups of version 1 then have the largest
possible number of pages."""


def cpu_quota(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return how many CPUs the tightest quota over this process allows at a time; None if there is no quota."""
    return min((quota for quota, _ in _quotas(root, membership)), default=None)


def throttled_folder(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Path | None:
    """Return the folder of the cgroup with the tightest quota, whose `cpu.stat` counts how long the quota held its
    processes back; None if there is no quota."""
    return min(_quotas(root, membership), default=(0.0, None))[1]


def pressure_seconds(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return the seconds so far in which any process of this process's cgroup was ready and had no CPU; None if the
    system does not count them, as in version 1.

    The number is from `cpu.pressure`: waits for other cgroups, for the cgroup's own quota, and of its processes for
    each other.

    Source: https://docs.kernel.org/accounting/psi.html
    """
    for folder in _folders(root, membership, "cpu"):
        try:
            lines = (folder / "cpu.pressure").read_text().splitlines()
            return next(int(line.rpartition("total=")[2]) for line in lines if line.startswith("some")) / 1e6
        except (OSError, ValueError, StopIteration):
            continue
    return None


def memory_kills(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """Return how many processes of this process's cgroup the system has killed at the cgroup's memory limit."""
    for folder in _folders(root, membership, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            if (folder / name).is_file():
                counts = dict(line.split() for line in (folder / name).read_text().splitlines())
                return int(counts.get("oom_kill", 0))
    return 0


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return the memory limit of this process's cgroup in bytes; None if there is no limit."""
    for folder in _folders(root, membership, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (folder / name).is_file():
                text = (folder / name).read_text().strip()
                return int(text) if text.isdecimal() and int(text) < _UNLIMITED_BYTES else None
    return None


def memory_available(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """Return how many bytes of memory this process can still get: what is available on this machine, or what is left of
    its cgroup's limit if that is less."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit = memory_limit(root, membership)
    return free if limit is None else min(free, max(0, limit - _memory_used(root, membership)))


def _memory_used(root: Path, membership: Path) -> int:
    """Return the bytes of memory in use by the cgroup, without cached files that the system can drop."""
    for folder in _folders(root, membership, "memory"):
        for name in ("memory.current", "memory.usage_in_bytes"):
            if (folder / name).is_file():
                counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                unused = counts.get("total_inactive_file", counts.get("inactive_file", 0))
                return int((folder / name).read_text()) - int(unused)
    return 0


def _quotas(root: Path, membership: Path) -> Iterator[tuple[float, Path]]:
    for folder in _folders(root, membership, "cpu"):
        if quota := _quota(folder):
            yield quota, folder


def _folders(root: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroups, and of all cgroups above them. In a container the uppermost is the
    container's own cgroup."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if number == "0":
            tops = [root, root / "unified"]
        elif controller in controllers.split(","):
            tops = [root / controllers, root / controller]
        else:
            continue
        below = Path(path.lstrip("/"))
        for top in tops:
            yield from (top / part for part in (below, *below.parents) if (top / part).is_dir())


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # "max" is no quota, and so is no file
        return None
