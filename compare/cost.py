"""The cost of a run: its reserved CPUs and memory times its duration; in money if prices are set. Pure.

Reservations of idle Ray pods while another arm runs count for no arm; they are reported separately. No arm uses a GPU.
"""

from compare.clock import whole_seconds
from compare.measurement import Context, Reserved, Run
from training.contract.arms import ARMS

HOUR = 3600.0


def reserved(arm: str, context: Context) -> Reserved:
    """CPUs and memory that a run of an arm holds: its processes', and on a cluster what Ray has beside its workers."""
    its_arm, recipe = ARMS[arm], context.recipe
    extra = context.ray_overhead if its_arm.start == "ray" else Reserved()
    processes = its_arm.processes(recipe)
    workers_memory = context.worker_memory_bytes * (recipe.workers if its_arm.all_cpus else processes)
    return Reserved(
        cpus=processes * its_arm.process_cpus(recipe) + extra.cpus,
        memory_bytes=workers_memory + extra.memory_bytes,
    )


def cpu_hours(run: Run, context: Context) -> float:
    """CPUs reserved × hours from start to result."""
    return reserved(run.arm, context).cpus * whole_seconds(run.result) / HOUR


def idle_ray_cpu_hours(run: Run, context: Context) -> float | None:
    """CPUs that idle Ray pods reserved meanwhile × hours; None for Ray's own runs and where there are none."""
    if ARMS[run.arm].start == "ray" or not context.idle_ray.cpus:
        return None
    return context.idle_ray.cpus * whole_seconds(run.result) / HOUR


def cost(run: Run, context: Context) -> float | None:
    """Return a run's cost in the currency of the prices; None if none is set."""
    if not context.prices.known:
        return None
    reserved_size, prices, hours = reserved(run.arm, context), context.prices, whole_seconds(run.result) / HOUR
    return hours * (
        reserved_size.cpus * (prices.cpu_hour or 0.0) + reserved_size.memory_bytes / 2**30 * (prices.gib_hour or 0.0)
    )
