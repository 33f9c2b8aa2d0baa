"""One way of the lesson in one repeat: `python -m bench.lesson.block ray --cpus 2 --pace 3e7 --folder F`.

A process of its own, so that nothing of one way is there while another is timed. Judges nothing.
"""

import argparse
import importlib
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

from bench.lesson import record, work
from bench.lesson.record import BATCHES, EACH, LENGTHS, Block, sized
from bench.lesson.ways import Executor, Pool, Way
from bench.lesson.work import seconds
from training.contract.codec import encode, write_whole

NAME = "block.json"
TIMES = 3
"""Of each array: the median counts."""


def main() -> None:
    """Measure, and leave block.json in the folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.lesson.block", description=__doc__)
    parser.add_argument("way", choices=record.WAYS)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True, help="iterations a second of one CPU")
    parser.add_argument("--folder", type=Path, required=True, help="for block.json, and Ray's token")
    options = parser.parse_args()
    block = _block(options.way, options.cpus, options.pace, options.folder)
    write_whole(options.folder / NAME, json.dumps(encode(block)) + "\n")


def _block(name: str, cpus: int, pace: float, folder: Path) -> Block:
    if name == record.LOOP:
        return measure(Way(), cpus, pace)
    if name == record.POOL:
        return measure(Pool(cpus), cpus, pace)
    if name == record.EXECUTOR:
        return measure(Executor(cpus), cpus, pace)
    import_seconds = seconds(lambda: importlib.import_module("ray"))
    from bench.lesson.ray_way import RayWay

    block = measure(RayWay(cpus, folder), cpus, pace)
    costs = block.costs | {record.IMPORT: import_seconds, record.START: block.costs[record.START] + import_seconds}
    return replace(block, costs=costs)


def measure(way: Way, cpus: int, pace: float) -> Block:
    """Start a way, measure everything of it, and end it."""
    try:
        costs = way.start()
        way.import_numpy()  # and all of its processes have started
        costs[record.ONE_BY_ONE] = seconds(lambda: way.one_by_one(record.ONE_BY_ONE_TASKS)) / record.ONE_BY_ONE_TASKS
        costs[record.TOGETHER] = seconds(lambda: way.together(record.TOGETHER_TASKS)) / record.TOGETHER_TASKS
        began, had_before = time.perf_counter(), time.process_time()
        tasks = _tasks(way, cpus, pace)
        took, had = time.perf_counter() - began, time.process_time() - had_before
        costs |= _of_arrays(way) | way.more()
        return Block(costs=costs, tasks=tasks, waited=took / had - 1 if way.is_loop else None, niceness=way.niceness())
    finally:
        way.stop()


def _tasks(way: Way, cpus: int, pace: float) -> dict[str, dict[str, float]]:
    """Seconds of a task, by EACH or BATCHES and length. Where a CPU has one task only, that is a batch: timed once."""
    taken: dict[str, dict[str, float]] = {EACH: {}, BATCHES: {}}
    for length in LENGTHS:
        tasks = [round(length.seconds * pace)] * (length.tasks_a_cpu * cpus)
        for shape, size in ((EACH, 1), (BATCHES, length.tasks_a_cpu)):
            is_timed = shape == EACH or (size > 1 and not way.is_loop)
            taken[shape][length.name] = _spin(way, tasks, size) if is_timed else taken[EACH][length.name]
    return taken


def _spin(way: Way, tasks: list[int], size: int) -> float:
    return seconds(lambda: way.spin(tasks, size)) / len(tasks)


def _of_arrays(way: Way) -> dict[str, float]:
    """A task with an array, by value."""
    arrays = {sized(record.BY_VALUE, size): work.array_of(size_bytes) for size, size_bytes in record.ARGUMENTS.items()}
    return {cost: statistics.median(_with_array(way, array) for _ in range(TIMES)) for cost, array in arrays.items()}


def _with_array(way: Way, array: object) -> float:
    return seconds(lambda: way.with_array(array))


if __name__ == "__main__":
    main()
