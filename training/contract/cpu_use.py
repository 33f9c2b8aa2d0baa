"""CPU time of a run, of what waited for it, and of what else ran on its machine. Standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

NOTICEABLE_CPUS = 0.1
"""CPUs of a machine that other programs have to take before this is reported."""


@dataclass(frozen=True, kw_only=True)
class CpuWait:
    """CPU time and waiting time of the threads of a rank."""

    seconds: float
    """Wall-clock time."""
    cpu_seconds: float
    """Time for which the rank's threads had a CPU."""
    waited_seconds: float
    """Time for which the rank's threads were ready to run and waited for a CPU, summed over the threads. They waited
    for other programs, a quota, or each other."""
    pressure_seconds: float | None = None
    """In a pod: wall-clock time in which any process of its container waited for a CPU; null if not counted."""

    @classmethod
    def of(cls, read: Sequence[Any]) -> "CpuWait":
        """Return a CpuWait from four numbers in the order of the fields."""
        seconds, had, waited, pressure = read
        return cls(seconds=seconds, cpu_seconds=had, waited_seconds=waited, pressure_seconds=pressure)


@dataclass(frozen=True, kw_only=True)
class MachineUse:
    """Use of this machine's CPU time during a run: by the run, the stack, other programs and the host."""

    seconds: float
    """Wall-clock time from the run's first process to the end of its last."""
    cpus: int
    """CPUs that the run may use; the other fields count time on these CPUs."""
    run_cpu_seconds: float
    """CPU time of the run's own processes, including processes that have ended."""
    stack_cpu_seconds: float
    """CPU time of Pulumi and of the processes that started the run."""
    other_cpu_seconds: float
    """CPU time of all other programs, and that of the run's processes which could not be told from them (see
    `resolution_seconds`)."""
    stolen_seconds: float
    """CPU time that the host of this virtual machine gave to other guests."""
    resolution_seconds: float
    """Largest error of these numbers. The system counts in ticks, for each process in whole ones. And if a process of
    the run ends without a parent that waits for it, its CPU time since it was last read, under a second before, counts
    as time of other programs."""

    @property
    def other_cpus(self) -> float:
        """Return how many CPUs other programs took, on average over the run."""
        return self.other_cpu_seconds / self.seconds if self.seconds > 0 else 0.0

    @property
    def stolen_cpus(self) -> float:
        """Return how many CPUs the host of this virtual machine took, on average over the run."""
        return self.stolen_seconds / self.seconds if self.seconds > 0 else 0.0
