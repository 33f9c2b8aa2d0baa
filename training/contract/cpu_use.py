"""CPU time of a run, of what waited for it, and of what else ran on its machine. Standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOTICEABLE_CPUS = 0.1
"""CPUs that other programs take of a machine, from which on they are reported."""


@dataclass(frozen=True, kw_only=True)
class CpuWait:
    """CPU time and waiting time of the threads of a rank."""

    seconds: float
    """Wall-clock time."""
    cpu_seconds: float
    """Time for which its threads had a CPU."""
    waited_seconds: float
    """Time for which threads were ready and waited for a CPU, added over them: for other programs, a quota, or each
    other."""
    pressure_seconds: float | None = None
    """In a pod: wall-clock time in which any process of its container waited; null where that is not counted."""

    @classmethod
    def of(cls, read: Sequence[Any]) -> "CpuWait":
        """Return the wait of these four numbers, in the order of the fields."""
        seconds, had, waited, pressure = read
        return cls(seconds=seconds, cpu_seconds=had, waited_seconds=waited, pressure_seconds=pressure)


@dataclass(frozen=True, kw_only=True)
class MachineUse:
    """Use of this machine's CPU time during a run: by the run, the stack, other programs and the host."""

    seconds: float
    """Wall-clock time from the run's first process to the end of its last."""
    cpus: int
    """CPUs that the run may use; the numbers below are of these."""
    run_cpu_seconds: float
    """CPU time of the run's own processes, with those that ended."""
    stack_cpu_seconds: float
    """CPU time of Pulumi and of the processes that started the run."""
    other_cpu_seconds: float
    """CPU time of all other programs, and what is said of `resolution_seconds`."""
    stolen_seconds: float
    """CPU time that the host of this virtual machine gave to other guests."""
    resolution_seconds: float
    """Largest error of these numbers: the system counts in ticks, each process in whole ones; and what a process of the
    run that nobody waited for had after it was last read, less than a second before its end, counts as others'."""

    @property
    def other_cpus(self) -> float:
        """Return CPUs that other programs took, on average."""
        return self.other_cpu_seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def stolen_cpus(self) -> float:
        """Return CPUs that the host took, on average."""
        return self.stolen_seconds / self.seconds if self.seconds > 0 else 0.0
