"""CPU quota and memory limit of the cgroups that this process is in, versions 1 and 2. Standard library only."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED_BYTES = 2**62
"""Version 1 writes the largest number of pages there is where nothing is limited."""


def cpu_quota(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return CPUs that the tightest quota over this process allows at a time; None where there is none."""
    return min((quota for quota, _ in _quotas(root, membership)), default=None)


def throttled_folder(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Path | None:
    """Return the folder of the cgroup with that quota, whose `cpu.stat` counts how long it held its processes back."""
    return min(_quotas(root, membership), default=(0.0, None))[1]


def pressure_seconds(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return the time so far in which some process of this one's cgroup was ready and had no CPU (`cpu.pressure`: what
    other cgroups took, its own quota, and its own processes beside each other); None where that is not counted: version
    1.

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
    """Return how many processes the system has killed because this process's cgroup needed more memory than its
    limit."""
    for folder in _folders(root, membership, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            if (folder / name).is_file():
                counts = dict(line.split() for line in (folder / name).read_text().splitlines())
                return int(counts.get("oom_kill", 0))
    return 0


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return the bytes that this process's cgroup may have; None where nothing limits it."""
    for folder in _folders(root, membership, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (folder / name).is_file():
                text = (folder / name).read_text().strip()
                return int(text) if text.isdecimal() and int(text) < _UNLIMITED_BYTES else None
    return None


def memory_available(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int:
    """Return the bytes that this process can still have: of this machine, and of its cgroup where that is limited."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit = memory_limit(root, membership)
    return free if limit is None else min(free, max(0, limit - _memory_used(root, membership)))


def _memory_used(root: Path, membership: Path) -> int:
    """Return the memory in use, in bytes, without files that can be dropped because nobody uses them at the moment."""
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
    """Yield the folders of this process's cgroups and all above them; in a container the uppermost is the container's
    own."""
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
