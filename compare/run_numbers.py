"""Every number of one run: seconds, its clock, scores, waiting for CPUs, CPU hours, cost. Pure.

A number that the run's result has not is None; the reason is in the result, or in the catalogue (`compare.measures`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compare.measurement import NO_PRICES, Context, Measurement, Reserved, Run, seconds_to_target
from compare.schema import RunLink
from compare.value import Missing, Value
from training.contract.arms import ARMS
from training.contract.cpu_use import CpuWait, MachineUse
from training.contract.result import MACHINE, TRAINING_WAIT, SearchOutcome, StepSeconds, TrainingResult, Worker

HOUR = 3600.0
NOT_SAID = "its result does not say it"
ONE_EPOCH = "what follows the steps of an epoch was not seen often enough: train at least two whole epochs"
Number = Callable[[Run, Measurement], float | None]
"""A function that reads one number of a run; it returns None if the run does not have the number."""


def step_seconds(result: TrainingResult) -> float | None:
    """Return the mean time of a timed step, in seconds; None if all steps were warm-up."""
    if not result.seconds.train or not result.steps.timed:
        return None
    return result.seconds.train / result.steps.timed


def epoch_seconds(result: TrainingResult) -> float | None:
    """Return the seconds of an epoch's steps in steady state. Warm-up steps are not timed, so each counts as the mean
    timed step. None if no step was timed."""
    mean = step_seconds(result)
    return None if mean is None else mean * result.steps.per_epoch


def whole_seconds(result: TrainingResult) -> float:
    """Return the seconds from the start of the process or container to the result, without our own probes."""
    return result.seconds.wall - result.seconds.probe


@dataclass(frozen=True)
class Clock:
    """The whole time of a run in two parts: the time of each epoch, and the fixed time, of start, test, end and what
    the warm-up takes beyond the time of its steps."""

    epochs: int
    whole: float
    per_epoch: float | None
    """Seconds of the steps, validation, reports and checkpoints of an epoch. None if no step was timed, or if
    nothing that follows the steps of an epoch was timed: the time between epochs is seen in one epoch fewer than
    were trained."""

    def at(self, epochs: int) -> float | None:
        """Return the seconds from start to result of a run with this number of epochs. If the run trained as many, this
        is the measured time; else it is computed from the two parts, or None without `per_epoch`."""
        if epochs == self.epochs:
            return self.whole
        if self.per_epoch is None:
            return None
        fixed = self.whole - self.epochs * self.per_epoch
        return fixed + epochs * self.per_epoch


def clock_of(result: TrainingResult) -> Clock:
    """Return the whole time of a run, in its parts."""
    epochs, steps = result.epochs_completed, epoch_seconds(result)
    gaps = epochs if result.steps.gaps is None else result.steps.gaps
    if steps is None or not gaps:
        return Clock(epochs, whole_seconds(result), None)
    parts = (result.seconds.validation, result.seconds.report, result.seconds.checkpoint)
    return Clock(epochs, whole_seconds(result), steps + sum(seconds or 0.0 for seconds in parts) / gaps)


def of_steps(part: Callable[[StepSeconds], float]) -> Number:
    """Return a reader of one number of the timed steps of a run."""
    return lambda run, _: part(run.result.steps.seconds) if run.result.steps.seconds else None


def of_workers(part: Callable[[Worker], float | None], join: Callable[[Sequence[float]], float]) -> Number:
    """Return a reader that joins a number of a run's workers, and reads None unless all have it."""

    def value(run: Run, _: Measurement) -> float | None:
        values = [part(worker) for worker in run.result.workers]
        present = [value for value in values if value is not None]
        return join(present) if present and len(present) == len(values) else None

    return value


def seconds_to_score(result: TrainingResult, score: float) -> float | None:
    """Return the seconds of training until the score that training follows was at least `score`, or None."""
    return next((point.seconds for point in result.curve if point.score >= score), None)


def score_seconds(run: Run, measurement: Measurement) -> float | None:
    """Return the seconds of training until the score that every run reached; None if there is no such score."""
    score = measurement.common_score
    return None if score is None else seconds_to_score(run.result, score)


def metric(run: Run, measurement: Measurement) -> float | None:
    """Return the last value of the metric that a setting names; None if the run has no such value."""
    return run.result.scores.get(measurement.target.name) if measurement.target else None


def to_target(run: Run, measurement: Measurement) -> float | None:
    """Return the seconds until the metric that a setting names reached its target; None if it did not."""
    return seconds_to_target(run.result, measurement.target)


def main_score(run: Run, measurement: Measurement) -> float | None:
    """Return the score whose difference between the arms is shown; None if the workload has no scores."""
    scores = measurement.workload.scores
    return run.result.scores.get(scores[0].name) if scores else None


def epoch(run: Run, _: Measurement) -> float | None:
    """Return the seconds of an epoch's steps, as `epoch_seconds` does. An epoch has the same rows in all arms, even
    where a step has not."""
    return epoch_seconds(run.result)


def whole(run: Run, measurement: Measurement) -> float | None:
    """Return the whole time of a run, for as many epochs as every run trained; None if the run trained more, and the
    time of an epoch is not known."""
    return clock_of(run.result).at(measurement.epochs_trained[0])


def of_search(part: Callable[[SearchOutcome], float | None]) -> Number:
    """Return a reader of one number of the search that a run made."""
    return lambda run, _: part(run.result.search) if run.result.search else None


def epochs_if_stopped(run: Run, measurement: Measurement) -> float | None:
    """Return the epochs of all trials of a run; None if no run stopped trials: all arms then train the same."""
    searches = [each.result.search for each in measurement.runs]
    is_stopped = any(search and search.stopped for search in searches)
    return run.result.search.epochs_trained if is_stopped and run.result.search else None


def epoch_seconds_if_stopped(run: Run, measurement: Measurement) -> float | None:
    """Return the whole time of a run ÷ the epochs of all its trials; None if no run of the search stopped trials."""
    epochs = epochs_if_stopped(run, measurement)
    return whole_seconds(run.result) / epochs if epochs else None


def other_cpus(run: Run) -> float | None:
    """Return the number of CPUs that other programs used while the run went on; None if it is not known."""
    return run.result.machine.other_cpus if run.result.machine else None


def waited_share(run: Run) -> float | None:
    """Return the seconds that the ranks waited for a CPU in the training ÷ the CPU seconds that they had, whoever had
    the CPUs meanwhile; None if it is not known."""
    waits = _cpu_waits(run)
    had = sum(wait.cpu_seconds for wait in waits or ())
    return sum(wait.waited_seconds for wait in waits or ()) / had if had > 0 else None


def kept_from(run: Run) -> Value:
    """Return the CPU seconds that others may have kept from the ranks of a run ÷ the CPU seconds that the ranks had.

    Threads of a run also wait for each other. So what others kept from it is at most the waiting, the time in which
    others had CPUs, and what the run's own CPUs could still have given it. In a pod neither of the last two is known:
    there all waiting counts, at most the time in which the whole pod was short of CPU, less the time that the pod's own
    quota held it back.
    """
    waits, use, reasons = _cpu_waits(run), run.result.machine, run.result.reasons
    if not waits:
        reason = f"how long {run.name} waited for a CPU is not known: {reasons.get(TRAINING_WAIT, NOT_SAID)}"
        return Missing(reason)
    had = sum(wait.cpu_seconds for wait in waits)
    if had <= 0 or (use is None and not all(worker.pod for worker in run.result.workers)):
        return Missing(f"what others took while {run.name} ran is not known: {reasons.get(MACHINE, NOT_SAID)}")
    if use is None:
        return sum(_in_pod(wait, worker) for wait, worker in zip(waits, run.result.workers, strict=True)) / had
    seconds = max(wait.seconds for wait in waits)
    unused = max(0.0, _cpus_given(run, use) * seconds - had)
    for_others = min(sum(wait.waited_seconds for wait in waits), use.other_cpus * seconds, unused)
    return (for_others + use.stolen_cpus * seconds) / had


def _cpus_given(run: Run, use: MachineUse) -> float:
    """Return the most CPUs of this machine that the ranks of a run could use together: ranks may share CPUs."""
    bound_to = [set(worker.affinity or ()) for worker in run.result.workers]
    cpus = len(set[int]().union(*bound_to)) if all(bound_to) else use.cpus
    return min(cpus, run.result.provenance.cpu_quota or math.inf)


def _cpu_waits(run: Run) -> list[CpuWait] | None:
    """Return the CPU waits of all ranks during the training; None if the wait of one rank is not known."""
    waits = [worker.training_wait for worker in run.result.workers]
    known = [wait for wait in waits if wait]
    return known if known and len(known) == len(waits) else None


def _in_pod(wait: CpuWait, worker: Worker) -> float:
    most = wait.waited_seconds if wait.pressure_seconds is None else min(wait.waited_seconds, wait.pressure_seconds)
    return max(0.0, most - (worker.throttled_seconds or 0.0))


def reserved(arm: str, context: Context) -> Reserved:
    """Return what a run of an arm reserves: for its processes, and with Ray on a cluster for head and submitter."""
    its_arm, recipe = ARMS[arm], context.recipe
    extra = context.ray_overhead if its_arm.start == "ray" else Reserved()
    processes = its_arm.processes(recipe)
    workers_memory = context.worker_memory_bytes * (recipe.workers if its_arm.all_cpus else processes)
    return Reserved(
        cpus=processes * its_arm.process_cpus(recipe) + extra.cpus,
        memory_bytes=workers_memory + extra.memory_bytes,
        gpus=processes * recipe.worker_gpus,
    )


def cpu_hours(run: Run, context: Context) -> float:
    """Return the reserved CPUs × the hours from start to result."""
    return reserved(run.arm, context).cpus * whole_seconds(run.result) / HOUR


def idle_ray_cpu_hours(run: Run, context: Context) -> float | None:
    """Return the CPUs that idle Ray pods reserved during a run × hours; None with Ray, or without such pods."""
    if ARMS[run.arm].start == "ray" or not context.idle_ray.cpus:
        return None
    return context.idle_ray.cpus * whole_seconds(run.result) / HOUR


def cost(run: Run, context: Context) -> float | None:
    """Return a run's cost in the currency of the prices; None if none is set."""
    if context.prices == NO_PRICES:
        return None
    reserved_size, prices, hours = reserved(run.arm, context), context.prices, whole_seconds(run.result) / HOUR
    return hours * (
        reserved_size.cpus * (prices.cpu_hour or 0.0)
        + reserved_size.memory_bytes / 2**30 * (prices.gib_hour or 0.0)
        + reserved_size.gpus * (prices.gpu_hour or 0.0)
    )


def price(run: Run, context: Context) -> float | None:
    """Return a run's cost: in money if prices are set, else in CPU hours."""
    return cpu_hours(run, context) if context.prices == NO_PRICES else cost(run, context)


def link(run: Run) -> RunLink:
    """Return the link to a run that was compared."""
    return RunLink(
        name=run.name,
        repeat=run.repeat,
        seed=run.result.recipe["seed"],
        path=run.path,
        sha256=run.sha256,
        started_at=run.result.started_at,
        wall_seconds=run.result.seconds.wall,
    )
