"""What the lesson measures, how much of it, and the record of it. Standard library only.

All seconds are of wall-clock time.
"""

from dataclasses import dataclass

from training.contract.cpu_use import MachineUse

LOOP, POOL, EXECUTOR, RAY = "loop", "pool", "executor", "ray"
WAYS = (LOOP, POOL, EXECUTOR, RAY)
"""To run tasks: in a loop of one process, by multiprocessing.Pool, by ProcessPoolExecutor, by Ray."""
PARALLEL = WAYS[1:]
NAMES = {POOL: "Pool.map", EXECUTOR: "ProcessPoolExecutor", RAY: "Ray"}
EACH, BATCHES = "each", "batches"
"""How tasks are handed out: one by one, or in as many batches as there are CPUs."""
MOST_CPUS = 4
"""That are used: with more of them a repeat takes longer, and says the same."""


@dataclass(frozen=True)
class Length:
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
    """The name of a cost that depends on a size."""
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


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Every way once, and what else ran meanwhile."""

    blocks: dict[str, Block]
    iterations_per_second: float
    """Of the loop that a task consists of, in one process, just before."""
    seconds: float
    use: MachineUse | None
    """None where the system does not say it."""
