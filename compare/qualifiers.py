"""Qualifications of the numbers and of where runs were: each a sentence without its full stop. None of them makes runs
incomparable. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from compare import gpus, lasting, search
from compare.fairness import OF_CPUS, own_threads
from compare.intervals import spread
from compare.measurement import Measurement, Repeat, Run
from compare.quiet import OTHERS, Quiet
from compare.run_numbers import seconds_to_score
from compare.schema import Estimate, Spread
from compare.value import Check, Missing
from compare.words import enumerated
from training.contract.arms import ARMS, NATIVE, counted
from training.contract.result import PROOF, SAME_BUT
from training.machine.topology import Cpu

T = TypeVar("T")

ACCURACY_POINTS = 2.0
"""A larger gap in test accuracy, in percentage points, qualifies the verdict: the arms may have learned otherwise."""

THROTTLED_SECONDS, THROTTLED_SHARE = 0.05, 0.01
"""A CPU quota that held a run back for less, in seconds or as a share of its training, is not reported."""

MOST_OBSERVING = 0.01
"""The largest share of a run's steps that the observer may take without a remark."""

TOGETHER_SECONDS = 180.0
"""If more seconds than this lie between two runs of a repeat, the machine may have changed between them."""


def qualifiers(
    measurement: Measurement, ratios: Mapping[str, Estimate], quiet: Quiet, checks: Mapping[str, Check]
) -> dict[str, str]:
    """Return the qualifiers that apply, by name. `ratios`: the ratios that are known."""
    if not measurement.runs:
        return {}
    runs, repeats, context = measurement.runs, measurement.repeats, measurement.context
    texts = {
        "accuracy": _accuracy_gap(ratios.get("accuracyGap")),
        "metric": _metric(measurement, ratios.get("metricGap")),
        "throttling": _throttling(runs),
        "gpuThrottling": gpus.throttled_in_some(measurement),
        **quiet.remarks,
        "lasting": lasting.remark(measurement),
        "idleRay": _idle_ray(quiet.idle_ray_cpus.value),
        "rayCluster": _cluster_start(measurement),
        "scaleUp": _scale_up(measurement),
        "rayInOthers": _ray_in_others(measurement),
        "leftFiles": _left_files(runs),
        "observer": _observer(runs),
        "oversubscription": f"Oversubscribed: {context.oversubscription}" if context.oversubscription else "",
        "ownThreads": _own_threads(measurement),
        "affinity": _no_affinity(measurement),
        "sharedCores": _shared_cores(runs),
        "kindsOfCore": _kinds_of_core(runs),
        "numaNodes": _numa_nodes(runs),
        "apart": _apart(measurement),
        "epochs": _different_epochs(measurement),
        **(search.remarks(measurement, ratios) if measurement.workload.searches else {}),
        "hosts": _different_hosts(runs),
        "systems": _different_systems(runs),
        "repeats": _fewer_repeats(len(repeats), context.repeats),
        "order": _order(measurement),
        "checks": _unverified(measurement, quiet, checks),
        "proof": _same_but(runs),
        "weights": _equal_weights(measurement),
        **measurement.workload.remarks(measurement.recipe),
    }
    return {name: text for name, text in texts.items() if text}


def _idle_ray(cpus: Spread | Missing) -> str:
    return (
        "" if isinstance(cpus, Missing) else f"The idle Ray pods took {cpus.median:.2f} CPUs while the other arms ran"
    )


def _accuracy_gap(gap: Estimate | None) -> str:
    if gap is None or abs(gap.median) <= ACCURACY_POINTS:
        return ""
    direction, points = "lower" if gap.median > 0 else "higher", abs(gap.median)
    return f"But Ray's test accuracy is {points:.1f} percentage points {direction}: {_learned(gap)}"


def _metric(measurement: Measurement, gap: Estimate | None) -> str:
    """Return that the arms learned something different, or that no run reported the metric; "" if neither is so."""
    target = measurement.target
    if target is None:
        return ""
    if not any(target.name in run.result.scores for run in measurement.runs):
        names = sorted({name for run in measurement.runs for name in run.result.scores})
        reported = f"reported were {', '.join(names)}" if names else "nothing was"
        return f"The metric {target.name} was never reported; {reported}"
    if gap is None or target.tolerance is None or abs(gap.median) <= target.tolerance:
        return ""
    direction = "lower" if gap.median > 0 else "higher"
    return (
        f"But Ray's {target.name} ends {abs(gap.median):.4g} {direction}, which is more than {target.tolerance:g}: "
        f"{_learned(gap)}"
    )


def _learned(gap: Estimate) -> str:
    """Return whether a large gap proves that the arms did not learn the same: not if its interval contains 0."""
    if gap.lower is None or gap.upper is None:
        return "whether the arms learned the same, one repeat cannot show"
    is_proven = not gap.lower <= 0 <= gap.upper
    return "the arms did not learn the same" if is_proven else "that the arms did not learn the same is not proven"


def _cluster_start(measurement: Measurement) -> str:
    heads = [run.result.ray_head for run in measurement.of_subject]
    seconds = [head.cluster_start_seconds for head in heads if head and head.cluster_start_seconds is not None]
    return f"Ray's cluster itself took {max(seconds):.0f} s to start, once, which is in no run" if seconds else ""


def _scale_up(measurement: Measurement) -> str:
    known = [run.result.seconds.scale_up for run in measurement.of_subject if run.result.seconds.scale_up is not None]
    if not known:
        return ""
    longest = max(known)
    least = f"{min(known):.0f} to " if round(min(known)) != round(longest) else ""
    return f"Ray's workers took {least}{longest:.0f} s to start for each run, which is in its end-to-end time"


def _ray_in_others(measurement: Measurement) -> str:
    """Return which arms without Ray ran Ray all the same; "" if none did. A script may start Ray by itself with any
    number of workers, as RLlib does."""
    arms = [arm for arm in measurement.arms if ARMS[arm].start != "ray"]
    had_it = [arm for arm in arms if any(run.result.ray_ran for run in measurement.by_arm[arm])]
    if not had_it:
        return ""
    return (
        f"The script starts Ray in {' and '.join(had_it)}, too: what Ray itself takes is in these clocks, and what the "
        "training would take without Ray is not known"
    )


def _left_files(runs: Sequence[Run]) -> str:
    """Return which run left files in the script's folder; "" if none did. A cache or a checkpoint of an early run makes
    later runs faster, or changes what they do."""
    left = [run for run in runs if run.result.left_files]
    if not left:
        return ""
    first = min(left, key=lambda run: run.started)
    return f"{first.name} left {', '.join(first.result.left_files)} in the script's folder, where later runs find it"


def _observer(runs: Sequence[Run]) -> str:
    """Return the largest share of a run's steps that the observer took; "" if it is small. The clocks do not contain
    the observer's time, but it works between the steps."""
    shares = [(_observer_share(run), run.name) for run in runs]
    most, name = max(shares)
    return (
        f"Observing {name} took {100 * most:.1f} % of its steps, which is in no clock" if most > MOST_OBSERVING else ""
    )


def _observer_share(run: Run) -> float:
    seconds = run.result.seconds
    steps = sum(part or 0.0 for part in (seconds.train, seconds.warmup, seconds.validation))
    return seconds.observer / (steps + seconds.observer) if steps else 0.0


def _throttling(runs: Sequence[Run]) -> str:
    throttled = [f"{run.name} for {_held_back(run):.1f} s" for run in runs if _held_back(run) > _tolerated_seconds(run)]
    return f"Throttled: the CPU quota held back {', '.join(throttled)}" if throttled else ""


def _held_back(run: Run) -> float:
    return max((worker.throttled_seconds or 0.0 for worker in run.result.workers), default=0.0)


def _tolerated_seconds(run: Run) -> float:
    return max(THROTTLED_SECONDS, THROTTLED_SHARE * (run.result.seconds.train or 0.0))


def _no_affinity(measurement: Measurement) -> str:
    """Return a remark if nothing bound the workers to CPUs. On this machine only CPU affinity can do that; on a cluster
    the quota holds workers to their CPUs."""
    unbound = any(
        worker.affinity is None
        for run in measurement.runs
        for worker in run.result.workers
        if "workers.affinity" not in run.result.reasons
    )
    if measurement.context.target != "local" or not unbound:
        return ""
    return "This system has no CPU affinity, so nothing held the arms to their CPUs"


def _apart(measurement: Measurement) -> str:
    """Return which repeats have long pauses between their runs; "" if none has. The machine may have changed meanwhile,
    as when runs are kept from an earlier measurement or resumed after an interruption."""
    between: dict[int, list[Run]] = {}
    for run in measurement.of_curve:
        between.setdefault(run.repeat, []).append(run)
    numbered = {repeat_number(repeat): list(repeat.values()) for repeat in measurement.repeats}
    gaps = {number: _longest_pause([*runs, *between.get(number, [])]) for number, runs in numbered.items()}
    apart = {number: seconds for number, seconds in gaps.items() if seconds > TOGETHER_SECONDS}
    if not apart:
        return ""
    which = f"repeat{'s' if len(apart) > 1 else ''} {', '.join(map(str, apart))}"
    return f"The runs of {which} lie up to {_duration(max(apart.values()))} apart"


def repeat_number(repeat: Repeat) -> int:
    """Return the number of a repeat, from 1."""
    return next(iter(repeat.values())).repeat


def _longest_pause(of_repeat: Sequence[Run]) -> float:
    """Return the longest pause in seconds from the end of a run to the start of the next run."""
    runs = sorted(of_repeat, key=lambda run: run.started)
    return max((after.started - before.ended for before, after in pairwise(runs)), default=0.0)


def _duration(seconds: float) -> str:
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 129_600 else f"{seconds / 86_400:.0f} days"


def _different_epochs(measurement: Measurement) -> str:
    """Return a remark if the arms trained with different schedules; "" if they did not. Early stopping and `plateau`
    follow the validation loss of each arm, so arms may end with different schedules.

    The schedule that a script itself sets is not checked here: whether arms have the same is part of the claim.
    """
    if not measurement.workload.scores:
        if len(measurement.epochs_trained) > 1:
            return f"The arms stopped at different {measurement.workload.passed}s ({_epochs(measurement)})"
        return "" if measurement.has_whole_epochs else _different_steps(measurement)
    schedules = [[run.result.schedule for run in repeat.values()] for repeat in measurement.repeats]
    if all(schedule == of_repeat[0] for of_repeat in schedules for schedule in of_repeat):
        return ""
    if len(measurement.epochs_trained) > 1:
        what = f"stopped at different epochs ({_epochs(measurement)} of {measurement.recipe.epochs})"
    else:
        what = "reduced the learning rate at different epochs"
    return f"The arms {what}, so the speedup is per epoch; {_time_to_accuracy(measurement)}"


def _different_steps(measurement: Measurement) -> str:
    """Return a remark if the arms made different numbers of steps, as a training may that ends at a target."""
    steps = {arm: [run.result.steps.per_epoch for run in measurement.by_arm[arm]] for arm in measurement.arms}
    if len({number for numbers in steps.values() for number in numbers}) == 1:
        return ""
    return f"The arms made different numbers of steps ({' and '.join(f'{arm} {_list(steps[arm])}' for arm in steps)})"


def _epochs(measurement: Measurement) -> str:
    return " and ".join(
        f"{arm} {_list([run.result.epochs_completed for run in measurement.by_arm[arm]])}" for arm in measurement.arms
    )


def _list(numbers: Sequence[int]) -> str:
    """Return the numbers as text, ascending and each once: `5, 7`."""
    return ", ".join(str(number) for number in sorted(set(numbers)))


def _time_to_accuracy(measurement: Measurement) -> str:
    accuracy = measurement.common_score
    if accuracy is None:
        return "time to accuracy was not measured"
    times = []
    for arm in measurement.arms:
        seconds = [seconds_to_score(run.result, accuracy) for run in measurement.by_arm[arm]]
        present = [value for value in seconds if value is not None]
        times.append(f"{arm} {spread(present).median:.1f} s" if present else f"{arm} not measured")
    return f"training time to a validation accuracy of {accuracy:.3f}: {', '.join(times)}"


def _different_hosts(runs: Sequence[Run]) -> str:
    """Return how the machines of ranks and arms differ: in CPU model, in nodes, and in how many ranks share a node."""
    models: dict[str, set[str]] = {}
    for run in runs:
        for worker in run.result.workers:
            models.setdefault(worker.cpu_model, set()).add(f"{run.arm} rank {worker.rank}")
    distributed = [run for run in runs if len(run.result.workers) > 1] or list(runs)
    placements: dict[str, set[str]] = {}
    for run in distributed:
        placements.setdefault(_placement(run), set()).add(run.arm)
    elsewhere = {node for run in runs for node in _nodes(run)} - {node for run in distributed for node in _nodes(run)}
    texts = [f"The ranks had different CPU models: {_who_had(models)}"] if len(models) > 1 else []
    texts += [f"The runs were placed differently: {_who_had(placements)}"] if len(placements) > 1 else []
    alone = f"One process ran on {', '.join(sorted(elsewhere))}, where no worker of the others ran"
    return "; ".join([*texts, *([alone] if elsewhere else [])])


def _nodes(run: Run) -> list[str]:
    return [worker.node for worker in run.result.workers]


def _placement(run: Run) -> str:
    """Return the nodes of a run as `a, b`. If a node had several ranks, return also how many ranks each node had: `2 +
    1 ranks on a, b`."""
    counts = Counter(_nodes(run))
    nodes = ", ".join(sorted(counts))
    shared = " + ".join(str(count) for count in sorted(counts.values(), reverse=True))
    return nodes if max(counts.values()) == 1 else f"{shared} ranks on {nodes}"


def _who_had(arms: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{what} ({', '.join(sorted(who))})" for what, who in sorted(arms.items()))


def _fewer_repeats(compared: int, wanted: int) -> str:
    return f"Only {compared} of {wanted} repeats are whole" if compared < wanted else ""


def _order(measurement: Measurement) -> str:
    """Return a remark if there are several repeats, but fewer than arms. With as many, each arm has each place in the
    order once, which balances a machine that drifts."""
    repeats, arms = len(measurement.repeats), len(measurement.arms)
    if not 1 < repeats < arms:
        return ""
    return (
        f"With {repeats} repeats of {arms} arms not every arm came first: {arms} repeats balance a machine that drifts"
    )


def _same_but(runs: Sequence[Run]) -> str:
    """Return how ranks differ from one process, if all the rest is proved to be the same; "" without a proof."""
    proofs = sorted({run.result.did.get(PROOF, "") for run in runs})
    text = next((proof for proof in proofs if proof.startswith(SAME_BUT)), "")
    return f"Ranks do {text}. Any distributed version of the script differs from one process in that" if text else ""


def _equal_weights(measurement: Measurement) -> str:
    """Return a remark if `native` and the subject ended with the same weights in every repeat, bit for bit."""
    pairs = [(repeat.get(NATIVE.name), repeat.get(measurement.subject or "")) for repeat in measurement.repeats]
    if not all(native and ray and native.result.weights == ray.result.weights is not None for native, ray in pairs):
        return ""
    return "Native and ray ended with the same weights, bit for bit: these two differ only in where they ran"


def _unverified(measurement: Measurement, quiet: Quiet, checks: Mapping[str, Check]) -> str:
    """Return which checks were not verified; "" if none. With one worker there is nothing to compare. In pods a quota
    holds processes to their CPUs and nothing binds them, so the checks of CPUs are not expected there. What others
    took, and that it may have slowed runs, is a remark of its own."""
    expected = () if measurement.context.target == "local" else OF_CPUS
    remarked = ("machineQuiet",) if any(quiet.remarks[name] for name in OTHERS) else ()
    unverified = [name for name, check in checks.items() if check.passed is None and name not in (*expected, *remarked)]
    return f"Not verified: {', '.join(unverified)}" if unverified and measurement.recipe.workers > 1 else ""


def _own_threads(measurement: Measurement) -> str:
    threads = own_threads(measurement)
    if threads is None:
        return ""
    return (
        f"The script itself sets {counted(threads, 'compute thread')} in every arm, so it leaves CPUs idle that others "
        "would use: what it takes with as many threads as it has CPUs is not measured"
    )


def _shared_cores(runs: Sequence[Run]) -> str:
    """Return a remark if CPUs of a run are threads of the same core: two such CPUs compute less than two cores."""
    arms: dict[tuple[int, int], list[str]] = {}
    for run in runs:
        cpus, cores = len(_of_nodes(run, lambda place: place.cpu)), len(_of_nodes(run, lambda place: place.core))
        if cores < cpus:
            arms.setdefault((cpus, cores), []).append(run.arm)
    shared = [
        f"the {counted(cpus, 'CPU')} of {_names(names)} are threads of {counted(cores, 'physical core')}"
        for (cpus, cores), names in arms.items()
    ]
    return f"Shared cores: {'; '.join(shared)}, so they compute less than {_cores(arms)} would" if shared else ""


def _kinds_of_core(runs: Sequence[Run]) -> str:
    """Return a remark if ranks of an arm run on slower cores than others: all go at the slowest one's pace."""
    arms = [run.arm for run in runs if len({place.kind for place in _places(run)}) > 1]
    return f"Different kinds of core: the workers of {_names(arms)} go at the slowest one's pace" if arms else ""


def _numa_nodes(runs: Sequence[Run]) -> str:
    """Return a remark if the ranks of a run are on several NUMA nodes of one machine; "" if those of none are."""
    nodes: dict[tuple[str, str, str], set[int]] = {}
    for run in runs:
        for machine, node in _of_nodes(run, lambda place: place.numa_node):
            if node is not None:
                nodes.setdefault((run.arm, run.name, machine), set()).add(node)
    several = {arm: numbers for (arm, *_), numbers in nodes.items() if len(numbers) > 1}
    if not several:
        return ""
    numbers = several[next(iter(several))]
    return f"The workers of {_names(several)} are on NUMA nodes {_names(map(str, numbers))} of their machine"


def _different_systems(runs: Sequence[Run]) -> str:
    """Return how the kernels and numbers of CPUs of the runs differ; "" if they do not. CPU models have a remark of
    their own, and C libraries must be equal."""
    kernels = {worker.software.kernel for run in runs for worker in run.result.workers}
    cpus = {str(run.result.provenance.cpus_allowed) for run in runs}
    kinds = (("kernels", kernels), ("CPUs", cpus))
    differences = [f"{what} {_names(values)}" for what, values in kinds if len(values) > 1]
    return f"The runs saw different systems: {'; '.join(differences)}" if differences else ""


def _places(run: Run) -> list[Cpu]:
    return [place for worker in run.result.workers for place in worker.cpus or ()]


def _of_nodes(run: Run, read: Callable[[Cpu], T]) -> set[tuple[str, T]]:
    """Return what `read` returns for each CPU of the run's ranks, as pairs with the machine's name."""
    return {(worker.node, read(place)) for worker in run.result.workers for place in worker.cpus or ()}


def _cores(arms: Iterable[tuple[int, int]]) -> str:
    return f"{max(cpus for cpus, _ in arms)} cores"


def _names(names: Iterable[str]) -> str:
    return enumerated(sorted(set(names)))
