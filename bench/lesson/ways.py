"""One way to run tasks, timed in one repeat: `python -m bench.lesson.ways ray --cpus 2 --pace 3e7 --folder F`.

A process of its own, so that nothing of one way is there while another is timed. It judges nothing. Every process of a
pool imports this file, so it imports little. All seconds are of wall-clock time.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from training.contract.codec import encode, write_whole

LOOP, POOL, EXECUTOR, RAY = WAYS = ("loop", "pool", "executor", "ray")
EACH, BATCHES = "each", "batches"
"""How tasks are handed out: one by one, or in as many batches as there are CPUs."""


class Length(NamedTuple):
    """One length of a task."""

    name: str
    seconds: float
    tasks_a_cpu: int


LENGTHS = (
    Length("0.1 ms", 0.0001, 500),
    Length("1 ms", 0.001, 100),
    Length("10 ms", 0.01, 20),
    Length("100 ms", 0.1, 3),
    Length("1 s", 1.0, 1),
)
"""A repeat does each with every way, and has three minutes for five repeats: hence the numbers."""
KIB, MIB = 2**10, 2**20
OBJECTS = {"10 KiB": 10 * KIB, "100 KiB": 100 * KIB, "1 MiB": MIB, "10 MiB": 10 * MIB, "100 MiB": 100 * MIB}
"""Bytes of what is put into Ray's object store and read from it."""
ARGUMENTS = {name: OBJECTS[name] for name in ("1 MiB", "100 MiB")}
"""Bytes of what is an argument of a task."""
ONE_BY_ONE_TASKS, TOGETHER_TASKS = 200, 1000
"""Empty ones."""
ARGUMENT_TIMES, OBJECT_TIMES = 3, 5
"""Of which the median counts."""
CALIBRATION_ITERATIONS, CALIBRATIONS = 200_000, 20
ALL_BUSY_SECONDS = 0.2

START, IMPORT, INIT = "start", "import", "init"
"""Costs of a start: all of it to the first answers, and two parts of Ray's."""
ONE_BY_ONE, TOGETHER = "oneByOne", "together"
"""Costs of one empty task: when each waits for the one before, and when all are handed out at once."""
ACTOR, ACTOR_ONE_BY_ONE, ACTOR_TOGETHER = "actor", "actorOneByOne", "actorTogether"
"""Costs of an actor: to make it and to call it once; and of a further call, as above."""
BY_VALUE, BY_REFERENCE = "byValue", "byReference"
"""Costs of a task with an array; before its size."""
PUT, GET, COPY = "put", "get", "copy"
"""Costs of an array in the object store, and of copying it in memory; before its size."""


def sized(cost: str, size: str) -> str:
    """Return the name of a cost that depends on a size."""
    return f"{cost} {size}"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One way in one repeat, in processes of its own."""

    costs: dict[str, float]
    """Seconds, by the names above."""
    tasks: dict[str, dict[str, float]]
    """Seconds until all tasks were done ÷ their number, by EACH or BATCHES and the length's name."""
    waited: float | None
    """Of the loop: seconds for which it waited for a CPU, for each second for which it had one."""
    niceness: int
    """Of the processes that run the tasks."""


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


def ends(array: Any) -> float:
    """Return a task that gets an array: its first number and its last."""
    return float(array[0] + array[-1])


def import_numpy(_: object = None) -> None:
    """Import it, and take so long that every process has to do one of as many such tasks."""
    import numpy  # noqa: F401 (not before it is wanted: it is no part of a start)

    time.sleep(ALL_BUSY_SECONDS)


def niceness(_: object = None) -> int:
    """Return the niceness of the process that this task runs in."""
    return os.getpriority(os.PRIO_PROCESS, 0)


class Actor:
    """An object with a method, to be made an actor."""

    def nothing(self) -> None:
        """An empty call."""


def timed(do: Callable[[], Any]) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _median(times: int, do: Callable[[], Any]) -> float:
    return statistics.median(timed(do) for _ in range(times))


def _array_of(size_bytes: int) -> Any:
    """Return an array of float64 with so many bytes, none of them in the system's page of zeros."""
    import numpy as np

    return np.ones(size_bytes // 8)


def iterations_per_second() -> float:
    """Return the iterations of `spin` a second on this machine now: the fastest of some, the least disturbed one."""
    return CALIBRATION_ITERATIONS / min(timed(lambda: spin(CALIBRATION_ITERATIONS)) for _ in range(CALIBRATIONS))


class Way:
    """A way to run tasks; this one, a loop, runs them in this process."""

    is_loop = True

    def start(self) -> dict[str, float]:
        """Start what runs the tasks; give the seconds of parts of that."""
        return {}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Run a task for each argument, and wait for each; give what they return."""
        return [function(argument) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:  # noqa: ARG002
        """Run a task for each argument, `size` of them in a batch, and wait for all at once. A loop has no batches."""
        self.one_by_one(function, arguments)

    def more(self) -> dict[str, float]:
        """Give the seconds of what this way alone has."""
        return {}

    def stop(self) -> None:
        """End what runs the tasks, and wait for that."""


class Pool(Way):
    """multiprocessing.Pool with a process for each CPU.

    Its processes start by `spawn`, as Ray's do: each is a new Python. That is the default on macOS and Windows. `fork`,
    Linux's until Python 3.14, starts faster, and is unsafe in a process with threads.
    """

    is_loop = False

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._pool: Any = None

    def start(self) -> dict[str, float]:
        """Start the processes."""
        self._pool = multiprocessing.get_context("spawn").Pool(self._cpus)
        return {}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Call by `apply`."""
        return [self._pool.apply(function, (argument,)) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """By `map`, in chunks of that size."""
        self._pool.map(function, arguments, chunksize=size)

    def stop(self) -> None:
        """End the processes, also those that have a task."""
        if self._pool:
            self._pool.terminate()
            self._pool.join()


class Executor(Way):
    """ProcessPoolExecutor with a process for each CPU, by `spawn`, too. They start with the first tasks."""

    is_loop = False

    def __init__(self, cpus: int) -> None:
        self._executor = ProcessPoolExecutor(cpus, mp_context=multiprocessing.get_context("spawn"))

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Call by `submit`."""
        return [self._executor.submit(function, argument).result() for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """By `map`, in chunks of that size."""
        list(self._executor.map(function, arguments, chunksize=size))

    def stop(self) -> None:
        """Wait for what has a task."""
        self._executor.shutdown()


class RayWay(Way):
    """Ray on this machine, as its documentation has it, with so many tasks at a time as CPUs are given.

    Args:
        cpus: CPUs that Ray hands out.
        folder: Where its token is while it runs.
    """

    is_loop = False

    def __init__(self, cpus: int, folder: Path) -> None:
        self._import_seconds = timed(lambda: importlib.import_module("ray"))
        import ray

        from training.launch.ray import driver

        self._ray, self._driver = ray, driver
        self._cpus, self._folder, self._own = cpus, folder, None
        self._task = cache(ray.remote)
        self._batch = cache(lambda function: ray.remote(lambda batch: [function(argument) for argument in batch]))

    def start(self) -> dict[str, float]:
        """Give the seconds of its import, too, which was before."""

        def init() -> None:
            self._own = self._driver.start_own_ray(self._folder, self._cpus)

        return {IMPORT: self._import_seconds, INIT: timed(init)}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Return a `get` for each; an array is put into the object store at each call."""
        return [self._ray.get(self._task(function).remote(argument)) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """One `get` for all. A batch is one task of Ray's."""
        if size == 1:
            self._ray.get([self._task(function).remote(argument) for argument in arguments])
        else:
            batches = [arguments[begin : begin + size] for begin in range(0, len(arguments), size)]
            self._ray.get([self._batch(function).remote(batch) for batch in batches])

    def more(self) -> dict[str, float]:
        """Actors, objects, and arrays by reference."""
        return self._of_actors() | self._of_objects() | self._of_references()

    def stop(self) -> None:
        """Shut it down, with all that it started."""
        if self._own:
            self._driver.shut_down(self._own)

    def _of_actors(self) -> dict[str, float]:
        ray, began = self._ray, time.perf_counter()
        actor = ray.remote(Actor).remote()
        ray.get(actor.nothing.remote())
        creation = time.perf_counter() - began
        one_by_one = timed(lambda: [ray.get(actor.nothing.remote()) for _ in range(ONE_BY_ONE_TASKS)])
        together = timed(lambda: ray.get([actor.nothing.remote() for _ in range(TOGETHER_TASKS)]))
        return {
            ACTOR: creation,
            ACTOR_ONE_BY_ONE: one_by_one / ONE_BY_ONE_TASKS,
            ACTOR_TOGETHER: together / TOGETHER_TASKS,
        }

    def _of_objects(self) -> dict[str, float]:
        costs = {}
        for size, size_bytes in OBJECTS.items():
            array = _array_of(size_bytes)
            puts, gets = zip(*(self._put_and_get(array) for _ in range(OBJECT_TIMES)), strict=True)
            costs[sized(PUT, size)], costs[sized(GET, size)] = statistics.median(puts), statistics.median(gets)
            costs[sized(COPY, size)] = _median(OBJECT_TIMES, array.copy)
        return costs

    def _put_and_get(self, array: Any) -> tuple[float, float]:
        """Return seconds of both; the object is deleted then."""
        began = time.perf_counter()
        reference = self._ray.put(array)
        put = time.perf_counter() - began
        return put, timed(lambda: self._ray.get(reference))

    def _of_references(self) -> dict[str, float]:
        costs = {}
        for size, size_bytes in ARGUMENTS.items():
            reference = self._ray.put(_array_of(size_bytes))
            costs[sized(BY_REFERENCE, size)] = _median(OBJECT_TIMES, partial(self.one_by_one, ends, [reference]))
        return costs


def measure(way: Way, cpus: int, pace: float) -> Block:
    """Start a way, measure everything of it, and end it. `pace`: iterations a second of one CPU."""
    try:
        began = time.perf_counter()
        costs = way.start()
        way.together(nothing, range(cpus))
        if not way.is_loop:
            costs[START] = time.perf_counter() - began + costs.get(IMPORT, 0.0)
        way.together(import_numpy, range(cpus))  # and all of its processes have started
        empty = timed(lambda: way.one_by_one(nothing, range(ONE_BY_ONE_TASKS)))
        costs[ONE_BY_ONE] = empty / ONE_BY_ONE_TASKS
        costs[TOGETHER] = timed(lambda: way.together(nothing, range(TOGETHER_TASKS))) / TOGETHER_TASKS
        began, had_before = time.perf_counter(), time.process_time()
        tasks = _tasks(way, cpus, pace)
        took, had = time.perf_counter() - began, time.process_time() - had_before
        for size, size_bytes in ARGUMENTS.items():
            array = _array_of(size_bytes)
            costs[sized(BY_VALUE, size)] = _median(ARGUMENT_TIMES, partial(way.one_by_one, ends, [array]))
        costs |= way.more()
        (nice,) = way.one_by_one(niceness, [None])
        return Block(costs=costs, tasks=tasks, waited=took / had - 1 if way.is_loop else None, niceness=nice)
    finally:
        way.stop()


def _tasks(way: Way, cpus: int, pace: float) -> dict[str, dict[str, float]]:
    """Return seconds of a task, by EACH or BATCHES and length. Where a CPU has one task only, that is a batch: timed
    once."""
    taken: dict[str, dict[str, float]] = {EACH: {}, BATCHES: {}}
    for name, seconds, size in LENGTHS:
        tasks = [round(seconds * pace)] * (size * cpus)
        taken[EACH][name] = taken[BATCHES][name] = timed(partial(way.together, spin, tasks)) / len(tasks)
        if size > 1 and not way.is_loop:
            taken[BATCHES][name] = timed(partial(way.together, spin, tasks, size)) / len(tasks)
    return taken


def main() -> None:
    """Measure, and leave block.json in the folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.lesson.ways", description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True, help="iterations a second of one CPU")
    parser.add_argument("--folder", type=Path, required=True, help="for block.json, and Ray's token")
    options = parser.parse_args()
    cpus, folder = options.cpus, options.folder
    by_name: dict[str, Callable[[], Way]] = {
        LOOP: Way,
        POOL: lambda: Pool(cpus),
        EXECUTOR: lambda: Executor(cpus),
        RAY: lambda: RayWay(cpus, folder),
    }
    block = measure(by_name[options.way](), cpus, options.pace)
    write_whole(folder / "block.json", json.dumps(encode(block)) + "\n")


if __name__ == "__main__":
    main()
