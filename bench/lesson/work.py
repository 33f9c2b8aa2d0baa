"""What the lesson's tasks do. Every process that runs them imports this, so it imports the standard library alone."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

CALIBRATION_ITERATIONS = 200_000
CALIBRATIONS = 20
ALL_BUSY_SECONDS = 0.2


def nothing(_: object = None) -> None:
    """An empty task."""


def spin(iterations: int) -> int:
    """Keep one CPU busy for so many iterations.

    Not for so many seconds: two processes that spin until a time share one CPU, and neither takes longer for it.
    """
    total = 0
    for number in range(iterations):
        total ^= number
    return total


def spin_all(batch: Sequence[int]) -> int:
    """Several such tasks, one after another."""
    return sum(spin(iterations) for iterations in batch)


def ends(array: Any) -> float:
    """A task that gets an array: its first number and its last."""
    return float(array[0] + array[-1])


def import_numpy(_: object = None) -> None:
    """Import it, and take so long that every process has to do one of as many such tasks."""
    import numpy  # noqa: F401 (not before it is wanted: it is no part of a start)

    time.sleep(ALL_BUSY_SECONDS)


def array_of(size_bytes: int) -> Any:
    """An array of float64 with so many bytes, none of them in the system's page of zeros."""
    import numpy as np

    return np.ones(size_bytes // 8)


def niceness() -> int:
    """Return the niceness of the process that this task runs in."""
    return os.getpriority(os.PRIO_PROCESS, 0)


class Actor:
    """An object with a method, to be made an actor."""

    def nothing(self) -> None:
        """An empty call."""


def seconds(do: Callable[[], Any]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def iterations_per_second() -> float:
    """Of `spin` on this machine now: the fastest of some, since whatever disturbs one makes it slower."""
    return CALIBRATION_ITERATIONS / min(seconds(lambda: spin(CALIBRATION_ITERATIONS)) for _ in range(CALIBRATIONS))
