"""Finds what other programs and a virtual machine's host took from the runs. Pure.

A load beside a measurement is no noise: it meets the arms that need all CPUs more than those that need one. Nothing is
corrected by it, and no run is dropped: it is said, and the check `machineQuiet` is *not known* then. The rule, and why
a rank's own waiting is no proof of others: docs/adr/0005-fairness.md.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from compare.intervals import ratio_interval
from compare.measurement import Run
from training.contract.result import MACHINE, NOTICEABLE_CPUS, TRAINING_WAIT, CpuWait, MachineUse, Worker

MOST_WAITED = 0.05
"""Of a run's CPU time: the margin of *no measurable difference*."""
LEAST_DIFFERENCE = 0.01
"""Arms whose runs waited alike but for so much are told nothing by it, however narrow their interval is."""
MOST_UNEVEN = 0.2
"""Runs of one arm have the same work to do: the CPUs that they had differ by less, or something else had them."""

NOT_SAID = "its result does not say it"


def check(repeats: Sequence[Mapping[str, Run]], subject: str | None) -> tuple[bool | None, str]:
    """`machineQuiet`: never false, since nothing says what the runs would have been without."""
    runs = [run for repeat in repeats for run in repeat.values()]
    kept = {run.name: kept_from(run) for run in runs}
    unknown = next((run for run in runs if kept[run.name] is None), None)
    if unknown:
        return None, _why_unknown(unknown)
    worst = max(runs, key=lambda run: kept[run.name] or 0.0)
    if (share := kept[worst.name] or 0.0) > MOST_WAITED:
        waited = f"{worst.name} waited {share:.2f} s for a CPU for each second that it had one"
        return None, waited + _while(worst.result.machine)
    others = [arm for arm in (repeats[0] if repeats else ()) if arm != subject]
    different = [text for arm in others if subject and (text := _different(repeats, arm, subject))]
    return (None, different[0]) if different else (True, "")


def remarks(runs: Sequence[Run]) -> dict[str, str]:
    """Return the remarks of the verdict, by name; "" if one does not apply."""
    return {
        "otherPrograms": _taken(runs, "Other programs took", lambda use: use.other_cpus),
        "stolen": _taken(runs, "The host of this virtual machine took", lambda use: use.stolen_cpus),
        "unevenCpus": _uneven(runs),
    }


def other_cpus(run: Run) -> float | None:
    """CPUs that other programs took while it ran."""
    return run.result.machine.other_cpus if run.result.machine else None


def waited_share(run: Run) -> float | None:
    """Seconds of waiting for a CPU for each second with one, over the training and all ranks: for whomever."""
    waits = _waits(run)
    had = sum(wait.cpu_seconds for wait in waits or ())
    return sum(wait.waited_seconds for wait in waits or ()) / had if had > 0 else None


def kept_from(run: Run) -> float | None:
    """CPU seconds that others may have kept from its ranks, for each that these had; None where that is not known.

    A rank waits for its siblings, too: for others at most as long as they had the CPUs. In a pod nobody tells what
    others had: there it is all waiting but for the pod's own quota, where anything of the pod waited at all.
    """
    waits, use = _waits(run), run.result.machine
    had = sum(wait.cpu_seconds for wait in waits or ())
    if not waits or had <= 0:
        return None
    if use is None:
        if not all(worker.pod for worker in run.result.workers):
            return None
        return sum(_in_pod(wait, worker) for wait, worker in zip(waits, run.result.workers, strict=True)) / had
    seconds = max(wait.seconds for wait in waits)
    for_others = min(sum(wait.waited_seconds for wait in waits), use.other_cpus * seconds)
    return (for_others + use.stolen_cpus * seconds) / had


def _waits(run: Run) -> list[CpuWait] | None:
    """Return the CPU waits of all ranks during training; None if one is not known."""
    waits = [worker.training_wait for worker in run.result.workers]
    known = [wait for wait in waits if wait]
    return known if known and len(known) == len(waits) else None


def _in_pod(wait: CpuWait, worker: Worker) -> float:
    most = wait.waited_seconds if wait.pressure_seconds is None else min(wait.waited_seconds, wait.pressure_seconds)
    return max(0.0, most - (worker.throttled_seconds or 0.0))


def _why_unknown(run: Run) -> str:
    known = run.result.reasons
    if _waits(run) is None:
        return f"how long {run.name} waited for a CPU is not known: {known.get(TRAINING_WAIT, NOT_SAID)}"
    return f"what others took while {run.name} ran is not known: {known.get(MACHINE, NOT_SAID)}"


def _while(use: MachineUse | None) -> str:
    if use is None:
        return ", in a pod that does not see who had it"
    if use.other_cpus >= use.stolen_cpus:
        return f" while other programs took {use.other_cpus:.1f} of {use.cpus} CPUs"
    return f" while the host took {use.stolen_cpus:.1f} of {use.cpus} CPUs"


def _different(repeats: Sequence[Mapping[str, Run]], arm: str, subject: str) -> str:
    """Return a remark if others took more from one of two arms, by more than the width of their ratio's interval.

    Where others are known to have had something: an arm that waits for its own siblings differs by itself.
    """
    pairs = [(repeat[arm], repeat[subject]) for repeat in repeats]
    uses = [run.result.machine for runs in pairs for run in runs]
    if not any(use and use.other_cpus + use.stolen_cpus > NOTICEABLE_CPUS for use in uses):
        return ""
    means = [statistics.fmean(kept_from(run) or 0.0 for run in runs) for runs in zip(*pairs, strict=True)]
    seconds = [(first.result.seconds.train, second.result.seconds.train) for first, second in pairs]
    interval = ratio_interval([first / second for first, second in seconds if first and second])
    if interval is None:
        return ""
    half = max(LEAST_DIFFERENCE, math.sqrt(interval.upper / interval.lower) - 1)
    if abs(means[0] - means[1]) <= half:
        return ""
    return (
        f"for each CPU second others kept {arm} waiting for {means[0]:.3f} s and {subject} for {means[1]:.3f} s: "
        f"that differs by more than the interval of their ratio (±{half:.1%})"
    )


def _taken(runs: Sequence[Run], who: str, cpus: Callable[[MachineUse], float]) -> str:
    """Return how much they took from the most disturbed run, and in how many runs it was noticeable."""
    taken = [(cpus(run.result.machine), run) for run in runs if run.result.machine]
    noticed = [(number, run) for number, run in taken if number > NOTICEABLE_CPUS]
    if not noticed:
        return ""
    most, run = max(noticed, key=lambda cpus_and_run: cpus_and_run[0])
    of = run.result.machine.cpus if run.result.machine else 0
    return (
        f"{who} {most:.1f} of {of} CPUs while {run.name} ran, and more than {NOTICEABLE_CPUS} "
        f"in {len(noticed)} of {len(runs)} runs"
    )


def _uneven(runs: Sequence[Run]) -> str:
    """Arms whose runs had CPUs of different numbers."""
    by_arm: dict[str, list[float]] = {}
    for run in runs:
        had = [worker.mean_cpus for worker in run.result.workers]
        if known := [cpus for cpus in had if cpus is not None]:
            by_arm.setdefault(run.arm, []).append(statistics.fmean(known))
    ranges = [
        f"those of {arm} {min(cpus):.2f} to {max(cpus):.2f}"
        for arm, cpus in by_arm.items()
        if max(cpus) - min(cpus) > MOST_UNEVEN * max(cpus)
    ]
    return f"Runs of one arm differ in the CPUs that a rank used: {', '.join(ranges)}" if ranges else ""
