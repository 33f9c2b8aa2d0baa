"""Tasks without Ray: in a loop, by multiprocessing.Pool, by concurrent.futures.ProcessPoolExecutor.

The pools start their processes by `spawn`, as Ray starts its own: each is a new Python. That is the default on macOS
and Windows. `fork`, Linux's until Python 3.14, starts faster, and is unsafe in a process with threads.
"""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from bench.lesson import work
from bench.lesson.record import START
from bench.lesson.work import seconds


class Way:
    """A way to run tasks; this one, a loop, runs them in this process."""

    is_loop = True

    def start(self) -> dict[str, float]:
        """Start what runs the tasks, wait for the first answers, and give the seconds of that."""
        return {}

    def one_by_one(self, count: int) -> None:
        """Run empty tasks, and wait for each."""
        for _ in range(count):
            work.nothing()

    def together(self, count: int) -> None:
        """Run empty tasks, and wait for all of them at once."""
        self.one_by_one(count)

    def spin(self, tasks: Sequence[int], size: int) -> None:  # noqa: ARG002 (a loop has no batches)
        """Run tasks of so many iterations, `size` of them in a batch, and wait for all."""
        for iterations in tasks:
            work.spin(iterations)

    def import_numpy(self) -> None:
        """Have every process import numpy."""
        work.import_numpy()

    def with_array(self, array: Any) -> None:
        """Run a task with this array as its argument, by value, and wait for it."""
        work.ends(array)

    def more(self) -> dict[str, float]:
        """Give the seconds of what this way alone has."""
        return {}

    def niceness(self) -> int:
        """Return the niceness of the processes that run the tasks."""
        return work.niceness()

    def stop(self) -> None:
        """End what runs the tasks."""


class Pool(Way):
    """multiprocessing.Pool with a process for each CPU."""

    is_loop = False

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._pool: Any = None

    def start(self) -> dict[str, float]:
        """From the first process on."""

        def first_answers() -> None:
            self._pool = multiprocessing.get_context("spawn").Pool(self._cpus)
            self.together(self._cpus)

        return {START: seconds(first_answers)}

    def one_by_one(self, count: int) -> None:
        """By `apply`."""
        for _ in range(count):
            self._pool.apply(work.nothing)

    def together(self, count: int) -> None:
        """By `map`, in chunks of one."""
        self._pool.map(work.nothing, range(count), chunksize=1)

    def spin(self, tasks: Sequence[int], size: int) -> None:
        """By `map`, in chunks of that size."""
        self._pool.map(work.spin, tasks, chunksize=size)

    def import_numpy(self) -> None:
        """A task for each process, long enough that no process takes two."""
        self._pool.map(work.import_numpy, range(self._cpus), chunksize=1)

    def with_array(self, array: Any) -> None:
        """Through a pipe."""
        self._pool.apply(work.ends, (array,))

    def niceness(self) -> int:
        """Of one of its processes."""
        return int(self._pool.apply(work.niceness))

    def stop(self) -> None:
        """End the processes, and wait for that."""
        if self._pool:
            self._pool.terminate()
            self._pool.join()


class Executor(Way):
    """ProcessPoolExecutor with a process for each CPU."""

    is_loop = False

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._executor = ProcessPoolExecutor(cpus, mp_context=multiprocessing.get_context("spawn"))

    def start(self) -> dict[str, float]:
        """Its processes start with the first tasks."""
        return {START: seconds(lambda: self.together(self._cpus))}

    def one_by_one(self, count: int) -> None:
        """By `submit`."""
        for _ in range(count):
            self._executor.submit(work.nothing).result()

    def together(self, count: int) -> None:
        """By `map`, in chunks of one."""
        list(self._executor.map(work.nothing, range(count)))

    def spin(self, tasks: Sequence[int], size: int) -> None:
        """By `map`, in chunks of that size."""
        list(self._executor.map(work.spin, tasks, chunksize=size))

    def import_numpy(self) -> None:
        """A task for each process, long enough that no process takes two."""
        list(self._executor.map(work.import_numpy, range(self._cpus)))

    def with_array(self, array: Any) -> None:
        """Through a pipe."""
        self._executor.submit(work.ends, array).result()

    def niceness(self) -> int:
        """Of one of its processes."""
        return self._executor.submit(work.niceness).result()

    def stop(self) -> None:
        """End the processes, and wait for that."""
        self._executor.shutdown()
