"""The verdict: one readable text with numbers, and what qualifies it. Pure: values and runs in, words out.

It computes no ratio and raises nothing. Standard library only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from training import placement
from training.comparison_schema import Context, Run, Spread
from training.fairness import Check
from training.ratios import Repeat, common_accuracy, seconds_to_accuracy, spread, started

Kind = Literal["faster", "slower", "no measurable difference", "not decided", "not comparable"]

ACCURACY_POINTS = 2.0
"""A larger gap in test accuracy qualifies the verdict: the arms then did not learn the same."""

THROTTLED_SECONDS, THROTTLED_SHARE = 0.05, 0.01
"""A quota that held a run back for less than this, or than this share of its training, changed nothing that counts."""

TOGETHER_SECONDS = 60.0
"""Runs of one measurement follow each other within this; a kept baseline ended longer ago."""


def decide(speedup: Spread | None, *, comparable: bool = True) -> Kind:
    """What the speedup says. Few repeats make no confidence interval, so their whole range must exclude 1."""
    if not comparable:
        return "not comparable"
    if speedup is None or speedup["n"] < 2:
        return "not decided"
    if speedup["low"] > 1:
        return "faster"
    return "slower" if speedup["high"] < 1 else "no measurable difference"


def sentence(
    values: Mapping[str, Any],
    repeats: Sequence[Repeat],
    checks: Mapping[str, Check],
    qualifiers: Mapping[str, str],
    context: Context,
) -> str:
    """The verdict: what was found in steady state and end to end, when it pays, and each qualifier."""
    failed = {name: why for name, (passed, why) in checks.items() if passed is False}
    kind = decide(values["speedup"], comparable=not failed)
    if kind == "not comparable":
        problems = "; ".join(f"{name} failed: {why}" for name, why in failed.items())
        return f"Not comparable: {problems}. No ratio is given, because the arms did not do the same work."
    if values["speedup"] is None:
        why = "the speedup could not be measured" if repeats else "no repeat has a run of every arm"
        return " ".join([f"Not decided: {why}.", *(f"{text}." for text in qualifiers.values())])
    parts = [_finding(kind, context.recipe["workers"], values["speedup"], qualifiers)]
    parts += [_end_to_end(values, context.recipe["epochs"]), _accuracy(values["accuracyGap"])]
    parts += [f"{text}." for text in qualifiers.values()]
    return " ".join(part for part in parts if part)


def factor(value: Spread) -> str:
    """A ratio with its range, where it has one: 1.87× (1.85× to 1.90×)."""
    median = f"{value['median']:.2f}×"
    return median if value["n"] < 2 else f"{median} ({value['low']:.2f}× to {value['high']:.2f}×)"


def qualifiers(
    values: Mapping[str, Any], repeats: Sequence[Repeat], checks: Mapping[str, Check], context: Context
) -> dict[str, str]:
    """What a reader must know beside the numbers, by name; each a sentence without its full stop."""
    runs = [run for repeat in repeats for run in repeat.values()]
    if not runs:
        return {}
    found = {
        "accuracy": _accuracy_gap(values["accuracyGap"]),
        "throttling": _throttling(runs),
        "idleRay": _idle_ray(values["idleRayCpus"]),
        "oversubscription": f"Oversubscribed: {context.oversubscription}" if context.oversubscription else "",
        "affinity": _no_affinity(runs, context),
        "sharedCores": placement.shared_cores(runs),
        "kindsOfCore": placement.kinds_of_core(runs),
        "numaNodes": placement.numa_nodes(runs),
        "olderBaseline": _older_baseline(repeats) if context.keep_baseline else "",
        "epochs": _different_epochs(repeats),
        "hosts": _different_hosts(runs),
        "systems": placement.different_systems(runs),
        "repeats": _fewer_repeats(len(repeats), context.repeats),
        "checks": _unverified(checks, context),
        "batchStatistics": _batch_statistics(context),
    }
    return {name: text for name, text in found.items() if text}


def _finding(kind: Kind, workers: int, speedup: Spread, qualifiers: Mapping[str, str]) -> str:
    unit = "an epoch" if "epochs" in qualifiers else "in steady state"
    subject = f"Ray with {workers} worker{'s' if workers != 1 else ''}"
    what = f"{subject} trains {factor(speedup)} as fast as one process, {unit}"
    if kind == "not decided":
        return f"Not decided: {what}, in one repeat, so its range is not known."
    if kind == "no measurable difference":
        return f"No measurable difference: {what}; the range of {speedup['n']} repeats contains 1."
    return f"{kind.capitalize()}: {what}, over {speedup['n']} repeats."


def _end_to_end(values: Mapping[str, Any], epochs: int) -> str:
    if values["endToEndSpeedup"] is None:
        return ""
    text = f"End to end (start-up included, {epochs} epoch{'s' if epochs != 1 else ''}) it is "
    text += f"{factor(values['endToEndSpeedup'])} as fast"
    pays = values["breakEvenEpochs"]
    if pays is None:
        return f"{text}."
    return f"{text}; " + (f"Ray pays from {pays:.1f} epochs on." if pays else "Ray starts no later than one process.")


def _accuracy(gap: Spread | None) -> str:
    if gap is None or abs(gap["median"]) > ACCURACY_POINTS:
        return ""  # a large gap is a qualifier
    return f"The accuracy gap is {gap['median']:+.1f} percentage points."


def _accuracy_gap(gap: Spread | None) -> str:
    if gap is None or abs(gap["median"]) <= ACCURACY_POINTS:
        return ""
    direction = "lower" if gap["median"] > 0 else "higher"
    points = abs(gap["median"])
    return f"But Ray's test accuracy is {points:.1f} percentage points {direction}: the arms did not learn the same"


def _throttling(runs: Sequence[Run]) -> str:
    throttled = [f"{run.name} for {_held_back(run):.1f} s" for run in runs if _held_back(run) > _tolerated_seconds(run)]
    return f"Throttled: the CPU quota held back {', '.join(throttled)}" if throttled else ""


def _idle_ray(cpus: Spread | None) -> str:
    return f"The idle Ray pods took {cpus['median']:.2f} CPUs while the other arms ran" if cpus else ""


def _held_back(run: Run) -> float:
    return max((float(worker["throttledSeconds"] or 0) for worker in run.summary["workers"]), default=0.0)


def _tolerated_seconds(run: Run) -> float:
    return max(THROTTLED_SECONDS, THROTTLED_SHARE * float(run.summary["trainSeconds"] or 0))


def _no_affinity(runs: Sequence[Run], context: Context) -> str:
    """On a cluster the quota holds a worker to its CPUs; on this machine only affinity does."""
    free = [run for run in runs if any(worker["affinity"] is None for worker in run.summary["workers"])]
    if context.target != "local" or not free:
        return ""
    return "This system has no CPU affinity, so nothing held the arms to their CPUs"


def _older_baseline(repeats: Sequence[Repeat]) -> str:
    """A baseline that ended long before its repeat went on, or before which another arm's repeat never ran."""
    gaps = {repeat["baseline"].name: _idle_seconds(repeat) for repeat in repeats}
    older = {name: seconds for name, seconds in gaps.items() if seconds > TOGETHER_SECONDS}
    if not older:
        return ""
    return f"The baseline is older: kept from up to {_duration(max(older.values()))} before ({', '.join(older)})"


def _idle_seconds(repeat: Repeat) -> float:
    """From the end of the baseline to the start of the next arm of its repeat."""
    ended = started(repeat["baseline"]) + float(repeat["baseline"].summary["wallSeconds"])
    return min(started(run) for arm, run in repeat.items() if arm != "baseline") - ended


def _duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 129_600 else f"{seconds / 86_400:.0f} days"


def _different_epochs(repeats: Sequence[Repeat]) -> str:
    """Early stopping and `plateau` follow each arm's own validation loss, so arms may end up with other schedules."""
    if all(_schedule(run) == _schedule(repeat["baseline"]) for repeat in repeats for run in repeat.values()):
        return ""
    stopped = len({run.summary["epochsCompleted"] for repeat in repeats for run in repeat.values()}) > 1
    what = "stopped" if stopped else "reduced the learning rate"
    return f"The arms {what} at different epochs, so the speedup is per epoch; {_time_to_accuracy(repeats)}"


def _schedule(run: Run) -> list[float]:
    return [epoch["learningRate"] for epoch in run.summary["history"]]


def _time_to_accuracy(repeats: Sequence[Repeat]) -> str:
    accuracy = common_accuracy(repeats)
    if accuracy is None:
        return "time to accuracy was not measured"
    times = []
    for arm in repeats[0]:
        seconds = [seconds_to_accuracy(repeat[arm].summary, accuracy) for repeat in repeats]
        present = [value for value in seconds if value is not None]
        times.append(f"{arm} {spread(present)['median']:.1f} s" if present else f"{arm} not measured")
    return f"training time to a validation accuracy of {accuracy:.3f}: {', '.join(times)}"


def _different_hosts(runs: Sequence[Run]) -> str:
    """What differs between the machines of the ranks and of the arms: CPU models, nodes, how many ranks share one."""
    models: dict[str, set[str]] = {}
    for run in runs:
        for worker in run.summary["workers"]:
            models.setdefault(worker["cpuModel"], set()).add(f"{run.arm} rank {worker['rank']}")
    distributed = [run for run in runs if len(run.summary["workers"]) > 1] or list(runs)
    placements: dict[str, set[str]] = {}
    for run in distributed:
        placements.setdefault(_placement(run), set()).add(run.arm)
    elsewhere = {node for run in runs for node in _nodes(run)} - {node for run in distributed for node in _nodes(run)}
    texts = [f"The ranks had different CPU models: {_who_had(models)}"] if len(models) > 1 else []
    texts += [f"The runs were placed differently: {_who_had(placements)}"] if len(placements) > 1 else []
    texts += (
        [f"One process ran on {', '.join(sorted(elsewhere))}, where no worker of the others ran"] if elsewhere else []
    )
    return "; ".join(texts)


def _nodes(run: Run) -> list[str]:
    return [str(worker["node"]) for worker in run.summary["workers"]]


def _placement(run: Run) -> str:
    """The nodes of a run, and how many ranks each had where some had more than one: `a, b` or `2 + 1 ranks on a, b`."""
    counts = Counter(_nodes(run))
    nodes = ", ".join(sorted(counts))
    shared = " + ".join(str(count) for count in sorted(counts.values(), reverse=True))
    return nodes if max(counts.values()) == 1 else f"{shared} ranks on {nodes}"


def _who_had(arms: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{what} ({', '.join(sorted(who))})" for what, who in sorted(arms.items()))


def _fewer_repeats(compared: int, wanted: int) -> str:
    return f"Only {compared} of {wanted} repeats are whole" if compared < wanted else ""


def _unverified(checks: Mapping[str, Check], context: Context) -> str:
    """One worker has nobody to be compared with: then an unverified check is no news."""
    open_checks = [name for name, (passed, _) in checks.items() if passed is None]
    return f"Not verified: {', '.join(open_checks)}" if open_checks and context.recipe["workers"] > 1 else ""


def _batch_statistics(context: Context) -> str:
    if context.recipe["workers"] == 1:
        return ""
    how = "synchronised over the workers" if context.recipe["syncBatchNorm"] else "those of each replica"
    return f"Batch statistics are {how}"
