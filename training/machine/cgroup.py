"""The CPU quota of the cgroups that this process is in, versions 1 and 2. Standard library only."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cpu_quota(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """CPUs that the tightest quota over this process allows at a time; None where there is none."""
    return min((quota for quota, _ in _quotas(root, membership)), default=None)


def throttled_folder(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Path | None:
    """The folder of the cgroup with that quota, whose `cpu.stat` counts how long it held its processes back."""
    return min(_quotas(root, membership), default=(0.0, None))[1]


def _quotas(root: Path, membership: Path) -> Iterator[tuple[float, Path]]:
    for folder in _folders(root, membership):
        if quota := _quota(folder):
            yield quota, folder


def _folders(root: Path, membership: Path) -> Iterator[Path]:
    """Where this process's cgroups and all above them are; in a container the uppermost is the container's own."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        lines = []
    for number, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if number == "0":
            tops = [root, root / "unified"]
        elif "cpu" in controllers.split(","):
            tops = [root / controllers, root / "cpu"]
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
