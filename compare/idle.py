"""CPUs that idle Ray pods take while the other arms run, from the readings that every Ray run makes. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from compare.measurement import Measurement, Run
from training.contract.arms import ARMS

BETWEEN_SECONDS = 30.0
"""Most that an arm takes in a measurement beside its wall seconds: its pod, and reading its result."""
CLOCKS_SECONDS = 2.0
"""How far the clocks of a cluster's nodes may be apart; a run's start is kept in whole seconds."""

NO_RAY_PODS = "no Ray pods run beside the other arms"
ONE_RAY_RUN = "it is read between two Ray runs: set repeats 2"
"""Why there is none on this machine, and with one repeat: nothing that a reader has to be told."""


def idle_ray_cpus(measurement: Measurement, reasons: dict[str, str]) -> list[float]:
    """CPUs that all Ray pods together took between two Ray runs, while the other arms ran: one value a gap.

    From the last reading of a Ray run to the first of the next. Where a gap gives no value, `reasons` says why.
    """
    subject = measurement.subject
    if measurement.context.target == "local" or subject is None:
        reasons["idleRayCpus"] = NO_RAY_PODS
        return []
    others = [run for run in measurement.runs if ARMS[run.arm].start != "ray"]
    gaps = pairwise(measurement.of(subject))
    rates = [rate for before, after in gaps if (rate := _idle_rate(before, after, others)) is not None]
    if not all(_readings(run, last=True) for run in measurement.of(subject)):
        reasons["idleRayCpus"] = "the CPU time of the Ray pods could not be read"
    elif len(measurement.repeats) == 1:
        reasons["idleRayCpus"] = ONE_RAY_RUN
    elif len(rates) < len(measurement.repeats) - 1:
        reasons["idleRayCpus"] = "between two Ray runs more than the other arms ran, or the Ray pods were replaced"
    return rates


def _idle_rate(before: Run, after: Run, others: Sequence[Run]) -> float | None:
    """CPUs of all Ray pods from one Ray run to the next; None where more than other arms' runs was between."""
    ends, starts = _readings(before, last=True), _readings(after, last=False)
    if not ends or ends.keys() != starts.keys():
        return None
    ended, began = max(at for at, _ in ends.values()), max(at for at, _ in starts.values())
    between = [run for run in others if ended - CLOCKS_SECONDS <= run.started <= began]
    most = sum(run.result.seconds.wall + BETWEEN_SECONDS for run in between)
    used = {pod: starts[pod][1] - seconds for pod, (_, seconds) in ends.items()}
    if began - ended > most or min(used.values()) < 0:
        return None  # a run that was given up, or a pause; a container that began again
    return sum(seconds / (starts[pod][0] - ends[pod][0]) for pod, seconds in used.items())


def _readings(ray: Run, *, last: bool) -> dict[str, tuple[float, float]]:
    """Return when each Ray pod's CPU time was read, and the seconds; empty if one is not known."""
    head, workers = ray.result.ray_head, ray.result.workers
    read = {worker.pod or "": worker.container_cpu for worker in workers}
    if head is None or not all(read.values()):
        return {}
    read[head.pod] = head.container_cpu
    return {pod: (both[-1 if last else 0][0], both[-1 if last else 0][1]) for pod, both in read.items() if both}
