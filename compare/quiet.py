"""Finds what others took while runs went on: other programs, a virtual machine's host, idle Ray pods. Pure.

A load beside a measurement is no noise: it slows arms that need all CPUs more than those that need one. It is said, and
the check `machineQuiet` is *not known* then; no number is corrected, and no run dropped. The rule, and why a rank's own
waiting is no proof of others: docs/adr/0005-fairness.md.
"""

import math
import statistics
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from compare.intervals import ratio_interval, spread
from compare.measurement import Measurement, Run
from compare.run_numbers import kept_from
from compare.schema import Spread
from compare.value import Check, Missing, Summary
from training.contract.arms import ARMS, RAYSTART
from training.contract.cpu_use import NOTICEABLE_CPUS, MachineUse

MOST_WAITED = 0.05
"""The largest share of a run's CPU time that others may have kept from it: the margin of *no measurable difference*."""
LEAST_DIFFERENCE = 0.01
"""If the shares of two arms differ by less, that says nothing, however narrow their interval is."""
MOST_UNEVEN = 0.2
"""Runs of one arm have the same work, so they use about as many CPUs. If the numbers differ by more than this share,
something else had the CPUs."""

BETWEEN_SECONDS = 30.0
"""The most seconds that a run takes beside its wall time, to create its pod and to read its result."""
CLOCKS_SECONDS = 2.0
"""How many seconds the clocks of a cluster's nodes may be apart. The start of a run is kept in whole seconds."""

NO_RAY_PODS = "no Ray pods run beside the other arms"
ONE_RAY_RUN = "it is read between two Ray runs: set repeats 2"
"""Why idle Ray pods were not measured: on this machine, or with one Ray run. Users need not be told."""


MORE_DO_NOT_HELP = "measure again on a quiet machine, because more repeats do not average out what others took"
"""What to do where nothing is decided by runs that others may have slowed."""
OTHERS = ("otherPrograms", "stolen")
"""Names of the remarks that say what others took."""


@dataclass(frozen=True)
class Quiet:
    """What other programs, the host and idle Ray pods took of the machines while the runs went on."""

    check: Check
    """The check `machineQuiet`: never false, as nothing says how runs would be on a quiet machine."""
    remarks: Mapping[str, str]
    """Remarks that qualify the verdict, by name. A remark that does not apply is ""."""
    idle_ray_cpus: Summary[Spread]
    """CPUs of all Ray pods together between two Ray runs, while other arms ran: a value for each such gap."""


def observe(measurement: Measurement) -> Quiet:
    """Return what the readings of the runs say about others that used the machine."""
    runs, starts = measurement.runs, measurement.by_arm.get(RAYSTART.name, ())
    check = _check(measurement.repeats, measurement.subject)
    busy = [(run.name, use) for run in starts if (use := run.result.machine) and _is_noticeable(use)]
    if check.passed and busy:  # nothing counts what a start that trains nothing waits
        check = Check(None, f"how long {busy[0][0]} waited for a CPU is not counted: {_who(busy[0][1])}")
    with_start, hardly = [*runs, *starts], "which kept hardly any CPU time from them while they trained"
    effect = hardly if check.passed else "which may have slowed them"
    return Quiet(
        check=check,
        remarks={
            "otherPrograms": _taken(with_start, "Other programs took", effect, lambda use: use.other_cpus),
            "stolen": _taken(with_start, "The host of this virtual machine took", effect, lambda use: use.stolen_cpus),
            "unevenCpus": _uneven(runs),
        },
        idle_ray_cpus=_idle_ray_cpus(measurement),
    )


def is_disturbed(machine_quiet: bool | None, remarks: Container[str]) -> bool:
    """Return whether others took something noticeable, and it is not certain that they kept it from no run."""
    return not machine_quiet and any(name in remarks for name in OTHERS)


def _is_noticeable(use: MachineUse) -> bool:
    return max(use.other_cpus, use.stolen_cpus) > NOTICEABLE_CPUS


def _check(repeats: Sequence[Mapping[str, Run]], subject: str | None) -> Check:
    if not repeats:
        return Check(None, "nothing ran")
    kept = [(run, kept_from(run)) for repeat in repeats for run in repeat.values()]
    unknown = next((share.reason for _, share in kept if isinstance(share, Missing)), "")
    if unknown:
        return Check(None, unknown)
    share, worst = max(((share, run) for run, share in kept if not isinstance(share, Missing)), key=itemgetter(0))
    if share > MOST_WAITED:
        kept_most = f"others may have kept {worst.name} from {share:.2f} s of CPU time for each second that it had"
        return Check(None, f"{kept_most}: {_who(worst.result.machine)}")
    shares = {run.name: share for run, share in kept if not isinstance(share, Missing)}
    others = [arm for arm in repeats[0] if arm != subject]
    different = [text for arm in others if subject and (text := _different(repeats, arm, subject, shares))]
    return Check(None, different[0]) if different else Check(True, "")


def _who(use: MachineUse | None) -> str:
    if use is None:
        return "it waited for CPUs in a pod, which does not see who had them"
    if use.other_cpus >= use.stolen_cpus:
        return f"other programs took {use.other_cpus:.1f} of {use.cpus} CPUs"
    return f"the host took {use.stolen_cpus:.1f} of {use.cpus} CPUs"


def _different(repeats: Sequence[Mapping[str, Run]], arm: str, subject: str, kept: Mapping[str, float]) -> str:
    """Return a remark if others took more CPU time from one of two arms, by more than half the width of the interval of
    the arms' ratio; else "". It is only made if others are known to have used CPUs: threads may wait for each other."""
    pairs = [(repeat[arm], repeat[subject]) for repeat in repeats]
    uses = [run.result.machine for runs in pairs for run in runs]
    if not any(use and use.other_cpus + use.stolen_cpus > NOTICEABLE_CPUS for use in uses):
        return ""
    means = [statistics.fmean(kept[run.name] for run in runs) for runs in zip(*pairs, strict=True)]
    seconds = [(first.result.seconds.train, second.result.seconds.train) for first, second in pairs]
    interval = ratio_interval([first / second for first, second in seconds if first and second])
    if interval is None:
        return ""
    half = max(LEAST_DIFFERENCE, math.sqrt(interval.upper / interval.lower) - 1)
    if abs(means[0] - means[1]) <= half:
        return ""
    return (
        f"for each CPU second others may have kept {arm} from {means[0]:.3f} s and {subject} from {means[1]:.3f} s: "
        f"that differs by more than the interval of their ratio (±{half:.1%})"
    )


def _taken(runs: Sequence[Run], who: str, effect: str, cpus: Callable[[MachineUse], float]) -> str:
    """Return how many CPUs `who` took at most, of which run, in how many it was noticeable, and what that did to the
    runs; "" if it was noticeable in none."""
    taken = [(cpus(run.result.machine), run) for run in runs if run.result.machine]
    noticed = [(number, run) for number, run in taken if number > NOTICEABLE_CPUS]
    if not noticed:
        return ""
    most, run = max(noticed, key=lambda cpus_and_run: cpus_and_run[0])
    of = run.result.machine.cpus if run.result.machine else 0
    return (
        f"{who} {most:.1f} of {of} CPUs while {run.name} ran, and more than {NOTICEABLE_CPUS} "
        f"in {len(noticed)} of {len(runs)} runs, {effect}"
    )


def _uneven(runs: Sequence[Run]) -> str:
    """Return a remark on the arms whose runs used different numbers of CPUs; "" if there are none."""
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


def _idle_ray_cpus(measurement: Measurement) -> Summary[Spread]:
    """Return the CPUs that idle Ray pods used, from the last reading of a Ray run to the first reading of the next Ray
    run. The warning says why some gap gives no value."""
    rays = measurement.of_subject
    if measurement.context.target == "local" or not rays:
        return Summary(Missing(NO_RAY_PODS))
    others = [run for run in measurement.runs if ARMS[run.arm].start != "ray"]
    gone_seconds = measurement.context.workers_gone_seconds
    rates = [
        rate
        for before, after in pairwise(rays)
        if (rate := _idle_rate(before, after, others, gone_seconds)) is not None
    ]
    warning = ""
    if not all(_readings(run, last=True, workers_stay=gone_seconds is None) for run in rays):
        warning = "the CPU time of the Ray pods could not be read"
    elif len(rays) == 1:
        warning = ONE_RAY_RUN
    elif len(rates) < len(rays) - 1:
        warning = "between two Ray runs no other arm ran, or more than those, or the Ray pods were replaced"
    return Summary(spread(rates), warning) if rates else Summary(Missing(warning))


def _idle_rate(before: Run, after: Run, others: Sequence[Run], gone_seconds: float | None) -> float | None:
    """Return the CPUs that the Ray pods used from one Ray run to the next. None if that is not known, if the pods were
    replaced, or if not only runs of other arms lay between, with the end and start of workers that do not stay."""
    workers_stay = gone_seconds is None
    ends = _readings(before, last=True, workers_stay=workers_stay)
    starts = _readings(after, last=False, workers_stay=workers_stay)
    if not ends or ends.keys() != starts.keys():
        return None
    ended, began = max(at for at, _ in ends.values()), max(at for at, _ in starts.values())
    between = [run for run in others if ended - CLOCKS_SECONDS <= run.started <= began]
    of_workers = (gone_seconds or 0.0) + (after.result.seconds.scale_up or 0.0)
    most = sum(run.result.seconds.wall + BETWEEN_SECONDS for run in between) + of_workers
    used = {pod: starts[pod][1] - seconds for pod, (_, seconds) in ends.items()}
    if not between or began - ended > most or min(used.values()) < 0:
        return None  # a run that was given up, or a pause; a container that began again
    return sum(seconds / (starts[pod][0] - ends[pod][0]) for pod, seconds in used.items())


def _readings(ray: Run, *, last: bool, workers_stay: bool) -> dict[str, tuple[float, float]]:
    """Return, by Ray pod, when the pod's CPU time was read, and the CPU seconds; empty if one pod's are not known.
    Workers that do not stay are left out: they cannot be idle while the other arms run."""
    head, workers = ray.result.ray_head, ray.result.workers
    read = {worker.pod or "": worker.container_cpu for worker in workers} if workers_stay else {}
    if head is None or not all(read.values()):
        return {}
    read[head.pod] = head.container_cpu
    return {pod: (both[-1 if last else 0][0], both[-1 if last else 0][1]) for pod, both in read.items() if both}
