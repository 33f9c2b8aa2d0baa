"""Reads which CPUs of this machine are threads of one physical core, of which kind, and on which NUMA node.

From Linux's sysfs, as the system shows it: a hypervisor may hide that two virtual CPUs are one core. It binds nothing.
Standard library only.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SYS = Path("/sys")
KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")
"""Folders in which Linux lists the CPUs of each kind of core of Intel's hybrid processors, the fastest first."""
SAME_KIND = 0.85
"""Cores whose speed is at least this share of the fastest of a kind are of that kind: processors run some of their
equal cores up to a tenth faster than others, and their slower kinds are slower by a quarter or more."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """The position of one CPU in the machine; `cpu` is the system's number for it."""

    cpu: int
    core: int
    """The physical core, named by the lowest number of its CPUs."""
    kind: int
    """Kind of core; 0 is the fastest kind of the machine."""
    numa_node: int | None
    """NUMA node of the CPU; null if the system does not tell it."""


def read(cpus: Iterable[int], root: Path = SYS) -> list[Cpu] | None:
    """Return the positions of these CPUs, by number; None if the system reports no cores. `root`: sysfs."""
    numbers = sorted(cpus)
    cores = {cpu: _core(cpu, root) for cpu in numbers}
    if all(core is None for core in cores.values()):
        return None
    kinds = _kinds(numbers, root)
    places = []
    for cpu, core in cores.items():
        node = _numa_node(cpu, root)
        places.append(Cpu(cpu=cpu, core=cpu if core is None else core, kind=kinds.get(cpu, 0), numa_node=node))
    return places


def order(cpus: Iterable[int], root: Path = SYS) -> list[int]:
    """Return the CPUs in the order in which workers get them; by number if the system reports no cores.

    One thread of every physical core comes before the second thread of any core. Among those threads the fastest kind
    of core comes first, and cores of one NUMA node stand together. The order does not depend on the number of workers,
    so that the baseline has the CPUs of the first worker whatever it is compared with.
    """
    numbers = sorted(cpus)
    threads: Counter[int] = Counter()
    keys = []
    for place in read(numbers, root) or ():
        keys.append((threads[place.core], place.kind, place.numa_node or 0, place.cpu))
        threads[place.core] += 1
    return [cpu for *_, cpu in sorted(keys)] or numbers


def cores_by_kind(places: Sequence[Cpu]) -> tuple[int, ...]:
    """Return the number of physical cores of each kind that these CPUs are on, the fastest kind first."""
    cores = Counter(kind for _, kind in {(place.core, place.kind) for place in places})
    return tuple(cores[kind] for kind in sorted(cores))


def cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list as the kernel writes it: `0-2,8` is 0, 1, 2 and 8. Raises ValueError."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if part:
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def _core(cpu: int, root: Path) -> int | None:
    folder = root / f"devices/system/cpu/cpu{cpu}/topology"
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second is what kernels before 5.3 call the first
        if siblings := _cpus_in(folder / name):
            return min(siblings)
    return None


def _kinds(cpus: Sequence[int], root: Path) -> dict[int, int]:
    """Return the kind of core of each CPU, by the CPU's number; an empty dict if the system does not tell."""
    listed = [_cpus_in(root / "devices" / name / "cpus") for name in KINDS]
    kinds = {cpu: kind for kind, members in enumerate(filter(None, listed)) for cpu in members}
    return kinds or _kinds_by_speed({cpu: speed for cpu in cpus if (speed := _speed(cpu, root))})


def _kinds_by_speed(speeds: dict[int, int]) -> dict[int, int]:
    kinds: dict[int, int] = {}
    kind, fastest = -1, 0
    for cpu in sorted(speeds, key=lambda cpu: -speeds[cpu]):
        if kind < 0 or speeds[cpu] < SAME_KIND * fastest:
            kind, fastest = kind + 1, speeds[cpu]
        kinds[cpu] = kind
    return kinds


def _speed(cpu: int, root: Path) -> int | None:
    """Return the kernel's number for the speed of this CPU relative to the fastest; if there is no such number, its
    highest clock; None if neither is known."""
    folder = root / f"devices/system/cpu/cpu{cpu}"
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):
            continue
    return None


def _numa_node(cpu: int, root: Path) -> int | None:
    nodes = (root / f"devices/system/cpu/cpu{cpu}").glob("node[0-9]*")
    return next((int(node.name.removeprefix("node")) for node in nodes), None)


def _cpus_in(path: Path) -> list[int]:
    try:
        return cpu_list(path.read_text())
    except (OSError, ValueError):
        return []
