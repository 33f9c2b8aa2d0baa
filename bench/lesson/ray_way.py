"""Tasks, actors and objects with Ray, as its documentation has them. Importing this imports Ray."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray

from bench.lesson import record, work
from bench.lesson.record import sized
from bench.lesson.ways import Way
from bench.lesson.work import array_of, seconds
from training.launch.ray.driver import OwnRay, shut_down, start_own_ray

TIMES = 5
"""Of each object: the median counts."""


class RayWay(Way):
    """Ray on this machine, with so many tasks at a time as CPUs are given.

    Args:
        cpus: CPUs that Ray hands out.
        folder: Where its token is while it runs.
    """

    is_loop = False

    def __init__(self, cpus: int, folder: Path) -> None:
        self._cpus, self._folder = cpus, folder
        self._own: OwnRay | None = None
        self._nothing, self._ends = ray.remote(work.nothing), ray.remote(work.ends)
        self._spin, self._spin_all = ray.remote(work.spin), ray.remote(work.spin_all)

    def start(self) -> dict[str, float]:
        """From `ray.init` on."""

        def init() -> None:
            self._own = start_own_ray(self._folder, self._cpus)

        init_seconds = seconds(init)
        return {record.INIT: init_seconds, record.START: init_seconds + seconds(lambda: self.together(self._cpus))}

    def one_by_one(self, count: int) -> None:
        """A `get` for each."""
        for _ in range(count):
            ray.get(self._nothing.remote())

    def together(self, count: int) -> None:
        """One `get` for all."""
        ray.get([self._nothing.remote() for _ in range(count)])

    def spin(self, tasks: Sequence[int], size: int) -> None:
        """A batch is one task of Ray's."""
        if size == 1:
            ray.get([self._spin.remote(iterations) for iterations in tasks])
        else:
            ray.get([self._spin_all.remote(tasks[begin : begin + size]) for begin in range(0, len(tasks), size)])

    def import_numpy(self) -> None:
        """A task for each CPU, long enough that no process takes two."""
        ray.get([ray.remote(work.import_numpy).remote() for _ in range(self._cpus)])

    def with_array(self, array: Any) -> None:
        """Ray puts the array into its object store at each call."""
        ray.get(self._ends.remote(array))

    def more(self) -> dict[str, float]:
        """Actors, objects, and arrays by reference."""
        return self._of_actors() | _of_objects() | self._of_references()

    def niceness(self) -> int:
        """Of one of its workers."""
        return int(ray.get(ray.remote(work.niceness).remote()))

    def stop(self) -> None:
        """Shut it down, with all that it started."""
        if self._own:
            shut_down(self._own)

    def _of_actors(self) -> dict[str, float]:
        actors: list[Any] = []

        def make() -> None:
            actors.append(ray.remote(work.Actor).remote())
            ray.get(actors[0].nothing.remote())

        def one_by_one() -> None:
            for _ in range(record.ONE_BY_ONE_TASKS):
                ray.get(actors[0].nothing.remote())

        def together() -> None:
            ray.get([actors[0].nothing.remote() for _ in range(record.TOGETHER_TASKS)])

        return {
            record.ACTOR: seconds(make),
            record.ACTOR_ONE_BY_ONE: seconds(one_by_one) / record.ONE_BY_ONE_TASKS,
            record.ACTOR_TOGETHER: seconds(together) / record.TOGETHER_TASKS,
        }

    def _of_references(self) -> dict[str, float]:
        costs = {}
        for size, size_bytes in record.ARGUMENTS.items():
            reference = ray.put(array_of(size_bytes))
            taken = [self._with_reference(reference) for _ in range(TIMES)]
            costs[sized(record.BY_REFERENCE, size)] = statistics.median(taken)
        return costs

    def _with_reference(self, reference: Any) -> float:
        return seconds(lambda: ray.get(self._ends.remote(reference)))


def _of_objects() -> dict[str, float]:
    costs = {}
    for size, size_bytes in record.OBJECTS.items():
        array = array_of(size_bytes)
        times = [_put_and_get(array) for _ in range(TIMES)]
        costs[sized(record.PUT, size)] = statistics.median(put for put, _ in times)
        costs[sized(record.GET, size)] = statistics.median(get for _, get in times)
        costs[sized(record.COPY, size)] = statistics.median(seconds(array.copy) for _ in range(TIMES))
    return costs


def _put_and_get(array: Any) -> tuple[float, float]:
    """Seconds of both; the object is deleted then."""
    references: list[Any] = []
    put = seconds(lambda: references.append(ray.put(array)))
    return put, seconds(lambda: ray.get(references[0]))
