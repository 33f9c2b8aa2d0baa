"""Decides whether runs may be compared: verifies the fairness rules on their results. Pure.

It judges what the results say and measures nothing itself. The rules are in docs/adr/0005-fairness.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from compare import gpus
from compare.measurement import Measurement, Repeat, Requested, Run
from compare.value import Check
from training.contract.arms import counted
from training.contract.result import FAILED, WORKERS, Software, Worker
from training.contract.workload import Workload
from training.machine.command_line import again

THREADS = "OMP_NUM_THREADS"
_TRUE = Check(True, "")

CPUS_DISJOINT, CPUS_AS_ASKED = "cpusDisjoint", "cpusAsAsked"
OF_CPUS = (CPUS_DISJOINT, CPUS_AS_ASKED)
"""Names of the two checks of CPUs. `cpusDisjoint` is for workloads that bind each rank to CPUs. `cpusAsAsked` is for
workloads whose arms have their CPUs as a whole."""


@dataclass(frozen=True)
class Fairness:
    """What was verified of the runs: the checks, by name."""

    checks: Mapping[str, Check]
    work: Mapping[str, Check]
    """The checks of what makes the work of the arms the same, by name; empty if a workload has no such checks."""
    failed: Sequence[str]
    """Names of the checks that failed. The arms are not comparable if there is one."""


def verify(measurement: Measurement, machine_quiet: Check) -> Fairness:
    """Return what was verified of the complete repeats. `measure` has refused other recipes and seeds."""
    runs = measurement.runs
    if not runs:
        return _judged({}, {})
    wanted = measurement.requests
    work = _work_items(measurement.workload, measurement.repeats)
    names = sorted({name for run in runs for name in run.result.checks} | set(measurement.workload.work_checks))
    reported = {name: _reported(name, runs) for name in names}
    checks: dict[str, Check] = {
        **_never_retried(runs),
        "replicasAsAsked": _replicas(runs, wanted, measurement.workload.replica),
        "threadsAsAsked": _TRUE if own_threads(measurement) else _threads(runs, wanted),
        **_of_cpus(measurement.workload, runs, wanted),
        **(gpus.as_asked(measurement) if measurement.recipe.worker_gpus else {}),
        "sameWork": _same_work_or_result(measurement, work),
        **_same_failed_trials(measurement.repeats),
        **_same_made_with(measurement.repeats),
        "environmentEqual": _equal(runs, "environment", partial(_framework_variables, wanted)),
        "machineQuiet": machine_quiet,
    }
    checks |= {name: check for name, check in reported.items() if name not in checks or check.passed is False}
    return _judged(checks, work)


def verify_points(workload: Workload, repeats: Sequence[Repeat]) -> Fairness:
    """Return what was verified of runs of one arm that differ only in their number of workers: that these runs did the
    same work. The runs of a repeat may have any keys."""
    work = _work_items(workload, repeats)
    return _judged({"sameWork": _same_work_of(workload, repeats, work), **_same_made_with(repeats)}, work)


def _judged(checks: Mapping[str, Check], work: Mapping[str, Check]) -> Fairness:
    return Fairness(checks, work, failed=[name for name, check in checks.items() if check.passed is False])


def _same_made_with(repeats: Sequence[Repeat]) -> dict[str, Check]:
    runs = [run for repeat in repeats for run in repeat.values()]
    return {
        "hashesEqual": _hashes(repeats, runs),
        "versionsEqual": _equal(runs, "versions", lambda _, software: software.versions),
        "platformsEqual": _equal(runs, "platform", lambda _, software: {"platform": software.platform}),
    }


def _first_broken(subjects: Iterable[Any], problem: Callable[[Any], str]) -> Check:
    return next((Check(False, text) for text in map(problem, subjects) if text), _TRUE)


def _never_retried(runs: Sequence[Run]) -> dict[str, Check]:
    """Return the check that no run was retried; empty if no run could be. A run that went on after a failure repeated
    some of its steps and waited, so its time is not that of the arm."""
    could = [run for run in runs if run.result.retries is not None]
    return {"neverRetried": _first_broken(could, _retried)} if could else {}


def _retried(run: Run) -> str:
    if not run.result.retries:
        return ""
    times = counted(run.result.retries, "time")
    return (
        f"{run.name} was retried {times} after a failure, so it does not count;"
        f" `{again('destroy', 'up')}` measures again"
    )


def _replicas(runs: Sequence[Run], wanted: Mapping[str, Requested], word: str) -> Check:
    unseen = [run.name for run in runs if run.result.world_size is None]
    if unseen:
        return Check(None, f"how many processes trained in {', '.join(unseen)} is not known")
    return _first_broken(runs, lambda run: _wrong_replicas(run, wanted[run.arm].processes, word))


def _wrong_replicas(run: Run, wanted: int, word: str) -> str:
    saw, reported = run.result.world_size, len(run.result.workers)
    if saw != wanted:
        return f"{run.name} trained with {counted(saw or 0, word)} where {wanted} were expected"
    if reported != wanted and WORKERS not in run.result.reasons:
        return f"{run.name} has reports of {counted(reported, 'worker')} where {wanted} were expected"
    return ""


def _threads(runs: Sequence[Run], wanted: Mapping[str, Requested]) -> Check:
    """Check that every rank whose threads could be counted computed with as many threads as it has CPUs."""
    uncounted = ""
    for run, worker in _workers(runs):
        threads, wanted_threads = worker.compute_threads, wanted[run.arm].threads
        if threads is None:
            uncounted = f"the threads of {run.name} could not be counted"
        elif threads != wanted_threads:
            return Check(False, f"rank {worker.rank} of {run.name} had {threads} compute threads, not {wanted_threads}")
    return Check(None, uncounted) if uncounted else _TRUE


def own_threads(measurement: Measurement) -> int | None:
    """Return the number of compute threads of every rank, if the script itself sets that number; None if it does not.
    The script sets it if all ranks of all arms have the same number, no larger than the fewest CPUs of a rank, and some
    arm has more CPUs."""
    cpus = {requested.threads for arm, requested in measurement.requests.items() if arm in measurement.arms}
    counts = {worker.compute_threads for _, worker in _workers(measurement.runs)}
    threads = counts.pop() if len(counts) == 1 and not measurement.workload.binds_ranks else None
    return threads if threads and min(cpus) >= threads < max(cpus) else None


def _of_cpus(workload: Workload, runs: Sequence[Run], wanted: Mapping[str, Requested]) -> dict[str, Check]:
    if workload.binds_ranks:
        return {CPUS_DISJOINT: _cpus_disjoint(runs, wanted)}
    return {CPUS_AS_ASKED: _cpus_as_asked(runs, wanted)}


def _cpus_as_asked(runs: Sequence[Run], wanted: Mapping[str, Requested]) -> Check:
    """Check that the ranks of every run together had the CPUs of their arm, and enough of them for each rank, and that
    every run's CPUs are among those of the run that had most. In pods that is not known."""
    for run in runs:
        pods = [worker.pod for worker in run.result.workers if worker.pod]
        if shared := sorted({pod for pod in pods if pods.count(pod) > 1}):
            return Check(
                False,
                f"ranks of {run.name} shared the pod {shared[0]}, which has the CPUs of one worker:"
                " ScalingConfig(resources_per_worker={'CPU': …}) has to ask for all of them",
            )
    for run, worker in _workers(runs):
        if worker.pod:
            return Check(
                None, f"in pods, as those of {run.name}, a limit holds ranks to their CPUs, and nothing binds them"
            )
        if worker.affinity is None:
            return Check(
                None, run.result.reasons.get("workers.affinity", f"the system of {run.name} has no CPU affinity")
            )
    cpu_counts_check = _first_broken(runs, lambda run: _wrong_cpus(run, wanted[run.arm]))
    if cpu_counts_check.passed is False:
        return cpu_counts_check
    most = max(runs, key=lambda run: len(_cpus_of(run)))
    return _first_broken(runs, lambda run: _other_cpus(run, most))


def _wrong_cpus(run: Run, wanted: Requested) -> str:
    threads, had = wanted.threads, _cpus_of(run)
    wanted_cpus, allowed = math.ceil(round(wanted.cpus, 3)) * wanted.processes, run.result.provenance.cpus_allowed
    if len(had) != min(wanted_cpus, allowed):
        cpus_had = f"{counted(len(had), 'CPU')} ({_numbers(had)})"
        return f"the ranks of {run.name} had {cpus_had}, not {min(wanted_cpus, allowed)}"
    for cpus in {frozenset(worker.affinity or ()) for worker in run.result.workers}:
        ranks = [worker.rank for worker in run.result.workers if cpus.issuperset(worker.affinity or ())]
        if len(cpus) < len(ranks) * threads <= allowed:
            who = f"ranks {_numbers(ranks)}" if len(ranks) > 1 else f"rank {ranks[0]}"
            return f"{who} of {run.name} had {counted(len(cpus), 'CPU')} ({_numbers(cpus)}), not {len(ranks) * threads}"
    return ""


def _other_cpus(run: Run, most: Run) -> str:
    other = _cpus_of(run) - _cpus_of(most)
    return f"{run.name} had CPUs that {most.name} had not: {_numbers(other)}" if other else ""


def _cpus_of(run: Run) -> set[int]:
    return {cpu for worker in run.result.workers for cpu in worker.affinity or ()}


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _cpus_disjoint(runs: Sequence[Run], wanted: Mapping[str, Requested]) -> Check:
    """Check that every rank was bound to as many CPUs as it has compute threads, and that no two ranks of a run share
    one. With more ranks than CPUs they have to share evenly; that is then not known (None)."""
    for run, worker in _workers(runs):
        if not worker.bound:
            return Check(None, f"nothing bound the processes of {run.name} to CPUs")
        bound, threads = len(worker.affinity or ()), wanted[run.arm].threads
        if bound != min(threads, run.result.provenance.cpus_allowed):
            return Check(False, f"rank {worker.rank} of {run.name} was bound to {bound} CPUs, not {threads}")
    if all(len(run.result.workers) < 2 for run in runs):
        return Check(None, "one worker has no other to share a CPU with")
    shared = [_sharing(run, wanted[run.arm].threads) for run in runs]
    uneven = next((text for is_uneven, text in shared if is_uneven), "")
    if uneven:
        return Check(False, uneven)
    turns = next((text for _, text in shared if text), "")
    return Check(None, turns) if turns else _TRUE


def _sharing(run: Run, wanted: int) -> tuple[bool, str]:
    """Return whether ranks of a run share CPUs unevenly, and how they share them, in words; "" if they share none."""
    allowed, turns = run.result.provenance.cpus_allowed, ""
    for node, ranks in _ranks_by_cpu(run).items():
        users, cpu = max((len(users), cpu) for cpu, users in ranks.items())
        wanted_cpus = wanted * sum(worker.node == node for worker in run.result.workers)
        if users > math.ceil(wanted_cpus / allowed):
            return True, f"{users} ranks of {run.name} were bound to CPU {cpu} of {node}"
        if users > 1:
            turns = f"the ranks of {run.name} ask for {wanted_cpus} CPUs of the {allowed} that {node} allows"
    return False, turns


def _ranks_by_cpu(run: Run) -> dict[str, dict[int, list[int]]]:
    """Return the ranks that are bound to each CPU, by node and CPU."""
    nodes: dict[str, dict[int, list[int]]] = {}
    for worker in run.result.workers:
        for cpu in worker.affinity or ():
            nodes.setdefault(worker.node, {}).setdefault(cpu, []).append(worker.rank)
    return nodes


def _workers(runs: Sequence[Run]) -> Iterator[tuple[Run, Worker]]:
    return ((run, worker) for run in runs for worker in run.result.workers)


def _equal(runs: Sequence[Run], what: str, read: Callable[[Run, Software], dict[str, str]]) -> Check:
    """Check that every rank of every run reports the same software as the first rank."""
    (first_run, first), *others = _workers(runs)
    wanted = read(first_run, first.software)
    for run, worker in others:
        rank_values = read(run, worker.software)
        for key in sorted(wanted.keys() | rank_values.keys()):
            if wanted.get(key) != rank_values.get(key):
                name = "" if key == what else f" {key}"
                return Check(
                    False,
                    f"rank {first.rank} of {first_run.name} and rank {worker.rank} of {run.name} differ in"
                    f" {what}{name}: {wanted.get(key, 'none')} and {rank_values.get(key, 'none')}",
                )
    return _TRUE


def _framework_variables(wanted: Mapping[str, Requested], run: Run, software: Software) -> dict[str, str]:
    """Return the environment variables without those of Ray, which other arms do not use. A number of threads that
    equals the arm's CPUs becomes the same text for all arms."""
    variables = {key: value for key, value in software.environment.items() if not key.startswith("RAY_")}
    if variables.get(THREADS) == str(wanted[run.arm].threads):
        variables[THREADS] = "one a CPU"
    return variables


def _same_work_or_result(measurement: Measurement, work: Mapping[str, Check]) -> Check:
    """Check that the arms did the same work. If they did not, but every run reached the same result, the check is not
    known (None): the arms may still be compared by the time until that result."""
    same, why = _same_work_of(measurement.workload, measurement.repeats, work)
    return Check(None if same is False and measurement.is_target_reached else same, why)


def _same_failed_trials(repeats: Sequence[Repeat]) -> dict[str, Check]:
    """Check that the same trials failed in all arms; empty if nothing was searched. A trial that fails in one arm only
    is less work for that arm, whatever the best metric of the other trials is."""
    if not any(run.result.search for repeat in repeats for run in repeat.values()):
        return {}
    return {"sameFailedTrials": _first_broken(repeats, _failed_elsewhere)}


def _failed_elsewhere(repeat: Repeat) -> str:
    first, *others = repeat.values()
    is_population = first.result.recipe.get("searchScheduler") == "pbt"  # whose trials have no number in other arms
    for other in others:
        if is_population:
            if bool(failed_trials(first)) is not bool(failed_trials(other)):
                failed, ended = (first, other) if failed_trials(first) else (other, first)
                return f"trials failed in {failed.name} and none in {ended.name}"
            continue
        if different := failed_trials(first) ^ failed_trials(other):
            number = min(different)
            failed, ended = (first, other) if number in failed_trials(first) else (other, first)
            return f"trial {number} failed in {failed.name} and not in {ended.name}"
    return ""


def failed_trials(run: Run) -> set[int]:
    """Return the numbers of the trials that failed, from 0."""
    words = [item.split(" ") for item in run.result.did.values()]
    return {number for item in words for number, word in enumerate(item) if word == FAILED}


def _same_work_of(workload: Workload, repeats: Sequence[Repeat], items: Mapping[str, Check]) -> Check:
    """Check that the work was the same, by the workload's own checks if it has them, else by the amounts of work that
    the results report."""
    if workload.same_work is None:
        return _first_broken(repeats, _same_work)
    for value in (False, None):
        words = [item.why for item in items.values() if item.passed is value]
        if words:
            return Check(value, "; ".join(dict.fromkeys(words)))
    return _TRUE if items else Check(None, "nothing was observed of the work")


def _work_items(workload: Workload, repeats: Sequence[Repeat]) -> dict[str, Check]:
    """Return, for each check of what makes the work the same, the worst result of all repeats; empty if the workload
    has no such checks."""
    if workload.same_work is None:
        return {}
    worst: dict[str, Check] = {}
    for repeat in repeats:
        for item, check in workload.same_work([run.result for run in repeat.values()]).items():
            before = worst.setdefault(item, Check(*check))
            worst[item] = min(before, Check(*check), key=lambda each: {False: 0, None: 1, True: 2}[each.passed])
    return worst


def _same_work(repeat: Repeat) -> str:
    first, *others = repeat.values()
    for other in others:
        for what in _work(first) | _work(other):
            amounts = [_work(run).get(what, 0) for run in (first, other)]
            if amounts[0] != amounts[1]:
                return f"{first.name} and {other.name} differ in {what}: {amounts[0]:g} and {amounts[1]:g}"
        if _steps(first)[0] == _steps(other)[0] and _steps(first) != _steps(other):
            return f"{first.name} and {other.name} differ in timed steps: {_steps(first)[1]} and {_steps(other)[1]}"
    return ""


def _work(run: Run) -> dict[str, float]:
    result = run.result
    processed = sum(worker.amount or 0 for worker in result.workers)
    return {
        "steps an epoch": result.steps.per_epoch,
        **result.work,
        f"{result.amount.unit} that the workers processed an epoch": processed / max(1, result.epochs_completed),
    }


def _steps(run: Run) -> tuple[int, int]:
    return run.result.epochs_completed, run.result.steps.timed


def _hashes(repeats: Sequence[Repeat], runs: Sequence[Run]) -> Check:
    """Check that the hashes are equal: of the dependencies in all runs, of the code in the runs of an arm (each arm has
    its own entry point), and of the data set in a repeat, because the data may depend on the seed."""
    arms = sorted({run.arm for run in runs})
    groups: list[tuple[str, str, Sequence[Run]]] = [("dependenciesHash", "dependencies_hash", runs)]
    groups += [("codeHash", "code_hash", [run for run in runs if run.arm == arm]) for arm in arms]
    groups += [("datasetHash", "dataset_hash", list(repeat.values())) for repeat in repeats]
    for name, field, group in groups:
        hash_of = attrgetter(f"result.provenance.{field}")
        for run in group[1:]:
            if hash_of(run) != hash_of(group[0]):
                return Check(False, f"{group[0].name} and {run.name} differ in {name}")
    for run, worker in _workers(runs):
        if worker.software.code_hash != run.result.provenance.code_hash:
            return Check(False, f"rank {worker.rank} of {run.name} ran other code than rank 0")
    return _TRUE


def _reported(name: str, runs: Sequence[Run]) -> Check:
    """Return the check that the runs report by this name. It is False if it failed in any run. It is None if a run with
    several workers did not report it: one process alone has no weights to compare."""
    failed = [run.name for run in runs if run.result.checks.get(name) is False]
    if failed:
        first = next(run for run in runs if run.name == failed[0])
        return Check(False, f"failed in {', '.join(failed)}" + _because(first, name))
    silent = [run for run in runs if run.result.checks.get(name) is None and len(run.result.workers) > 1]
    if not silent and any(run.result.checks.get(name) for run in runs):
        return _TRUE
    silent = silent or list(runs)
    return Check(None, f"not verified in {', '.join(run.name for run in silent)}" + _because(silent[0], name))


def _because(run: Run, name: str) -> str:
    why = run.result.reasons.get(name) or run.result.reasons.get(f"checks.{name}")
    return f": {why}" if why else ""
