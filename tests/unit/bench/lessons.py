"""Repeats of the lesson with made-up numbers."""

from bench.lesson import ways
from bench.lesson.table import Repeat
from bench.lesson.ways import BATCHES, EACH, EXECUTOR, LENGTHS, LOOP, POOL, RAY, Block, sized
from training.contract.cpu_use import MachineUse

CPUS = 2
EACH_COSTS = {RAY: 0.0007, EXECUTOR: 0.0002, POOL: 0.0001}
"""Seconds that a task costs beside its work."""
BATCH_COST = 2e-6
COMMON = {ways.ONE_BY_ONE: 0.0015, ways.TOGETHER: 0.0003} | {
    sized(ways.BY_VALUE, size): seconds for size, seconds in (("1 MiB", 0.005), ("100 MiB", 0.4))
}
OF_RAY = {
    ways.IMPORT: 0.8,
    ways.INIT: 2.1,
    ways.ACTOR: 0.7,
    ways.ACTOR_ONE_BY_ONE: 0.0007,
    ways.ACTOR_TOGETHER: 0.0003,
    sized(ways.BY_REFERENCE, "1 MiB"): 0.004,
    sized(ways.BY_REFERENCE, "100 MiB"): 0.007,
    **{
        sized(cost, size): size_bytes / pace
        for size, size_bytes in ways.OBJECTS.items()
        for cost, pace in ((ways.PUT, 8e9), (ways.GET, 2e11), (ways.COPY, 1e10))
    },
}


def use(*, others: float = 0.0, stolen: float = 0.0) -> MachineUse:
    """Of 20 s, in which others took so many CPUs."""
    return MachineUse(
        seconds=20.0,
        cpus=CPUS,
        run_cpu_seconds=30.0,
        stack_cpu_seconds=0.1,
        other_cpu_seconds=20.0 * others,
        stolen_seconds=20.0 * stolen,
        resolution_seconds=0.2,
    )


def block(way: str, cost: float, *, speed: float = 1.96, slower: float = 1.0, waited: float = 0.0) -> Block:
    """A way whose tasks cost so many seconds beside their work, which both CPUs do `speed` times as fast as one."""
    pace = 1.0 if way == LOOP else speed
    start = {} if way == LOOP else {ways.START: 3.2 if way == RAY else 0.2}
    costs = start | COMMON | {RAY: OF_RAY, LOOP: {ways.ONE_BY_ONE: 4e-8}}.get(way, {})
    tasks = {
        shape: {length.name: length.seconds / pace + (beside if way != LOOP else 0.0) for length in LENGTHS}
        for shape, beside in ((EACH, cost * slower), (BATCHES, BATCH_COST))
    }
    return Block(
        costs={name: seconds * slower for name, seconds in costs.items()},
        tasks=tasks,
        waited=waited if way == LOOP else None,
        niceness=15 if way == RAY else 0,
    )


def repeat(
    slower: float = 1.0,
    *,
    machine: MachineUse | None = use(),  # noqa: B008 (frozen)
    waited: float = 0.0,
    speed: float = 1.96,
    costs: dict[str, float] = EACH_COSTS,
) -> Repeat:
    """Every way once; all that is no work of a task takes `slower` times as long."""
    blocks = {way: block(way, costs[way], speed=speed, slower=slower) for way in EACH_COSTS}
    blocks[LOOP] = block(LOOP, 0.0, waited=waited)
    return Repeat(blocks=blocks, iterations_per_second=3e7, seconds=20.0, use=machine)


def repeats(**more: object) -> list[Repeat]:
    """Five on a quiet machine, which differ by some percent."""
    return [repeat(slower, **more) for slower in (1.0, 0.96, 1.05, 0.98, 1.02)]  # type: ignore[arg-type]
