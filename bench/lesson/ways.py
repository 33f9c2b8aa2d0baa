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
"""Lengths of a task. A repeat runs tasks of each length in every way; the numbers of tasks are chosen so that five
repeats take three minutes."""
KIB, MIB = 2**10, 2**20
OBJECTS = {"10 KiB": 10 * KIB, "100 KiB": 100 * KIB, "1 MiB": MIB, "10 MiB": 10 * MIB, "100 MiB": 100 * MIB}
"""Sizes in bytes of the arrays that are put into Ray's object store and read from it."""
ARGUMENTS = {name: OBJECTS[name] for name in ("1 MiB", "100 MiB")}
"""Sizes in bytes of the arrays that a task gets as its argument."""
ONE_BY_ONE_TASKS, TOGETHER_TASKS = 200, 1000
"""Numbers of empty tasks: handed out one by one, and all at once."""
ARGUMENT_TIMES, OBJECT_TIMES = 3, 5
"""How often a task with an array, and an operation on an object, is timed. The median counts."""
CALIBRATION_ITERATIONS, CALIBRATIONS = 200_000, 20
ALL_BUSY_SECONDS = 0.2

START, IMPORT, INIT = "start", "import", "init"
"""Costs of a start: the whole start until the first tasks have returned, and two parts of Ray's start."""
ONE_BY_ONE, TOGETHER = "oneByOne", "together"
"""Costs of an empty task: if each task waits for the one before, and if all are handed out at once."""
ACTOR, ACTOR_ONE_BY_ONE, ACTOR_TOGETHER = "actor", "actorOneByOne", "actorTogether"
"""Costs of an actor: its creation with a first call, and a further call, one by one or all at once."""
BY_VALUE, BY_REFERENCE = "byValue", "byReference"
"""Costs of a task that gets an array; the array's size is appended."""
PUT, GET, COPY = "put", "get", "copy"
"""Costs of an array: to put it into the object store, get it from there, and copy it; its size is appended."""


def sized(cost: str, size: str) -> str:
    """Return the name of a cost that depends on an array's size: `put 1 MiB`."""
    return f"{cost} {size}"


@dataclass(frozen=True, kw_only=True)
class Block:
    """Measurements of one way to run tasks in one repeat, whose processes are its own."""

    costs: dict[str, float]
    """Seconds of each cost, by the names above."""
    tasks: dict[str, dict[str, float]]
    """Seconds until all tasks were done, divided by their number: by EACH or BATCHES, and by a task's length."""
    waited: float | None
    """Seconds for which the loop waited for a CPU, for each second for which it had a CPU. None for other ways."""
    niceness: int
    """Niceness of the processes that run the tasks."""


def nothing(_: object = None) -> None:
    """Do nothing: an empty task."""


def spin(iterations: int) -> int:
    """Keep one CPU busy for this number of iterations.

    A number of seconds would not do: two processes that spin until a time share one CPU, and neither takes longer for
    that.
    """
    total = 0
    for number in range(iterations):
        total ^= number
    return total


def ends(array: Any) -> float:
    """Return the sum of an array's first and last number: a task with an array as argument."""
    return float(array[0] + array[-1])


def import_numpy(_: object = None) -> None:
    """Import numpy and sleep a while, so that with one such task for each process every process has to take one."""
    import numpy  # noqa: F401 (not before it is wanted: it is no part of a start)

    time.sleep(ALL_BUSY_SECONDS)


def niceness(_: object = None) -> int:
    """Return the niceness of the process that this task runs in."""
    return os.getpriority(os.PRIO_PROCESS, 0)


class Actor:
    """A class with a method, of which an actor is made."""

    def nothing(self) -> None:
        """Do nothing: an empty call of an actor."""


def timed(do: Callable[[], Any]) -> float:
    """Return the seconds that a call of the function takes."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _median(times: int, do: Callable[[], Any]) -> float:
    return statistics.median(timed(do) for _ in range(times))


def _array_of(size_bytes: int) -> Any:
    """Return an array of float64 with this size, of ones, because zeros need not have memory of their own."""
    import numpy as np

    return np.ones(size_bytes // 8)


def iterations_per_second() -> float:
    """Return how many iterations of `spin` this machine does in a second now. The fastest of several tries counts,
    because it was disturbed least."""
    return CALIBRATION_ITERATIONS / min(timed(lambda: spin(CALIBRATION_ITERATIONS)) for _ in range(CALIBRATIONS))


class Way:
    """A way to run tasks. This class itself is the loop: it runs the tasks in this process."""

    is_loop = True

    def start(self) -> dict[str, float]:
        """Start the processes that run the tasks. Return the seconds of parts of the start, by name."""
        return {}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Run a task for each argument, one after the other, and return their results."""
        return [function(argument) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:  # noqa: ARG002
        """Hand out a task for each argument, `size` tasks in a batch, and wait for all. A loop has no batches."""
        self.one_by_one(function, arguments)

    def more(self) -> dict[str, float]:
        """Return the seconds of costs that no other way has, by name."""
        return {}

    def stop(self) -> None:
        """End the processes that run the tasks, and wait until they have ended."""


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
        """Start the pool's processes."""
        self._pool = multiprocessing.get_context("spawn").Pool(self._cpus)
        return {}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Run each task by `Pool.apply`, and return the results."""
        return [self._pool.apply(function, (argument,)) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """Run the tasks by `map`, in chunks of `size` tasks."""
        self._pool.map(function, arguments, chunksize=size)

    def stop(self) -> None:
        """End the pool's processes, also those that are busy with a task."""
        if self._pool:
            self._pool.terminate()
            self._pool.join()


class Executor(Way):
    """ProcessPoolExecutor with a process for each CPU, also by `spawn`. The processes start with the first tasks."""

    is_loop = False

    def __init__(self, cpus: int) -> None:
        self._executor = ProcessPoolExecutor(cpus, mp_context=multiprocessing.get_context("spawn"))

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Run each task by `submit`, and return the results."""
        return [self._executor.submit(function, argument).result() for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """Run the tasks by `map`, in chunks of `size` tasks."""
        list(self._executor.map(function, arguments, chunksize=size))

    def stop(self) -> None:
        """Shut the executor down, after waiting for processes that are busy with a task."""
        self._executor.shutdown()


class RayWay(Way):
    """Ray on this machine, used as its documentation says. It runs as many tasks at a time as it has CPUs.

    Args:
        cpus: CPUs that Ray hands out.
        folder: Folder that holds Ray's token while Ray runs.
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
        """Start Ray, and return the seconds of `ray.init` and of `import ray`, which was done before."""

        def init() -> None:
            self._own = self._driver.start_own_ray(self._folder, self._cpus)

        return {IMPORT: self._import_seconds, INIT: timed(init)}

    def one_by_one(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Run each task and `get` its result before the next. An array is put into the object store at each call."""
        return [self._ray.get(self._task(function).remote(argument)) for argument in arguments]

    def together(self, function: Callable[[Any], Any], arguments: Sequence[Any], size: int = 1) -> None:
        """Run the tasks with one `get` for all of them. A batch is one task of Ray's."""
        if size == 1:
            self._ray.get([self._task(function).remote(argument) for argument in arguments])
        else:
            batches = [arguments[begin : begin + size] for begin in range(0, len(arguments), size)]
            self._ray.get([self._batch(function).remote(batch) for batch in batches])

    def more(self) -> dict[str, float]:
        """Return the seconds of actors, of the object store, and of tasks that get an array by reference."""
        return self._of_actors() | self._of_objects() | self._of_references()

    def stop(self) -> None:
        """Shut Ray down, with all processes that it started."""
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
        """Return the seconds of a `put` and of a `get` of the array. The stored object is deleted afterwards."""
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
    """Start a way to run tasks, measure all its costs, and end it. `pace`: iterations of `spin` a second of one CPU."""
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
    """Return seconds of a task, by EACH or BATCHES and by length. One task a CPU is a batch, too, and timed once."""
    taken: dict[str, dict[str, float]] = {EACH: {}, BATCHES: {}}
    for name, seconds, size in LENGTHS:
        tasks = [round(seconds * pace)] * (size * cpus)
        taken[EACH][name] = taken[BATCHES][name] = timed(partial(way.together, spin, tasks)) / len(tasks)
        if size > 1 and not way.is_loop:
            taken[BATCHES][name] = timed(partial(way.together, spin, tasks, size)) / len(tasks)
    return taken


def main() -> None:
    """Measure one way to run tasks, and write block.json into the folder."""
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
