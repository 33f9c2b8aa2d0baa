"""Whether runs may be compared: refuses different recipes, and verifies the fairness rules on the results.

It judges what the results say and measures nothing itself. The rules are the design's "Fair by construction".
Standard library only.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from training.comparison_schema import CompareError, Context, Run
from training.result import SCHEMA_VERSION

Check = tuple[bool | None, str]
"""What was found, and why where that is not True."""

_TRUE: Check = (True, "")

_FROM_RUNS = ("shardsCoverDataSet", "weightsEqual")
"""Checks that only a run can make (`TrainingResult.checks`): always listed, beside whatever else the runs checked."""


def expected_world_size(arm: str, recipe: dict[str, Any]) -> int:
    """Replicas that TensorFlow must see in this arm."""
    return 1 if arm == "baseline" else int(recipe["workers"])


def refuse_different_recipes(runs: Sequence[Run], context: Context) -> None:
    """Raise CompareError naming the first field in which a run was not trained as the stack asks.

    `seed` must be that of the run's repeat; the baseline's recipe leaves out `workers`, which cannot change it.
    """
    for run in runs:
        _refuse_other_version(run)
        wanted = context.recipe | {"seed": context.recipe["seed"] + run.repeat - 1}
        given = run.summary["recipe"]
        skipped = {"workers"} if run.arm == "baseline" else set()
        for key in sorted((set(wanted) | set(given)) - skipped):
            if given.get(key) != wanted.get(key):
                raise CompareError(
                    f"recipes differ in `{key}`: {run.name} was trained with {given.get(key)!r} and the comparison "
                    f"needs {wanted.get(key)!r}; run `make up` to measure all arms with one recipe"
                )


def _refuse_other_version(run: Run) -> None:
    version = run.summary.get("schemaVersion")
    if version != SCHEMA_VERSION:
        raise CompareError(
            f"{run.name} has schemaVersion {version!r} and this program compares {SCHEMA_VERSION}; "
            "run `make up` to measure again"
        )


def verify(repeats: Sequence[dict[str, Run]], recipe: dict[str, Any]) -> dict[str, Check]:
    """Every check by name, over complete repeats of arm → run. Recipes and seeds are equal, or nothing is compared."""
    runs = [run for repeat in repeats for run in repeat.values()]
    names = sorted({name for run in runs for name in run.summary["checks"]} | set(_FROM_RUNS))
    reported = {name: _reported(name, runs) for name in names}
    found: dict[str, Check] = {
        "replicasAsAsked": _first_broken(runs, lambda run: _replicas(run, recipe)),
        "threadsAsAsked": _threads(runs, recipe),
        "cpusDisjoint": _cpus_disjoint(runs, recipe),
        "sameWork": _first_broken(repeats, _same_work),
        "hashesEqual": _hashes(repeats, runs),
        "versionsEqual": _equal(runs, "versions", lambda software: software["versions"]),
        "platformsEqual": _equal(runs, "platform", lambda software: {"platform": software["platform"]}),
        "environmentEqual": _equal(runs, "environment", _framework_variables),
    }
    return found | {name: check for name, check in reported.items() if name not in found or check[0] is False}


def _first_broken(subjects: Iterable[Any], problem: Callable[[Any], str]) -> Check:
    return next(((False, text) for text in map(problem, subjects) if text), _TRUE)


def _replicas(run: Run, recipe: dict[str, Any]) -> str:
    wanted = expected_world_size(run.arm, recipe)
    saw, reported = run.summary["worldSize"], len(run.summary["workers"])
    if saw != wanted:
        return f"{run.name} trained with {saw} replica(s) where {wanted} were expected"
    if reported != wanted:
        return f"{run.name} has reports of {reported} worker(s) where {wanted} were expected"
    return ""


def compute_threads(recipe: dict[str, Any]) -> int:
    """Compute threads, and CPUs, that one worker must have: `Recipe.compute_threads` of a recipe in JSON."""
    cpus: int = math.ceil(recipe["workerCpus"])
    return max(1, cpus)


def _threads(runs: Sequence[Run], recipe: dict[str, Any]) -> Check:
    """Every rank computed with as many threads as it has CPUs, where its threads could be counted."""
    wanted, uncounted = compute_threads(recipe), ""
    for run, worker in _workers(runs):
        if worker["computeThreads"] is None:
            uncounted = f"the threads of {run.name} could not be counted"
        elif worker["computeThreads"] != wanted:
            return (
                False,
                f"rank {worker['rank']} of {run.name} had {worker['computeThreads']} compute threads, not {wanted}",
            )
    return (None, uncounted) if uncounted else _TRUE


def _cpus_disjoint(runs: Sequence[Run], recipe: dict[str, Any]) -> Check:
    """Every rank was bound to as many CPUs as it computes with, none of them another rank's of its run.

    Where there are more ranks than CPUs they must take turns evenly, and that is not disjoint: null.
    """
    wanted, shared = compute_threads(recipe), ""
    for run, worker in _workers(runs):
        if not worker["bound"]:
            return None, f"nothing bound the processes of {run.name} to CPUs"
        if len(worker["affinity"]) != min(wanted, run.summary["provenance"]["cpusAllowed"]):
            return (
                False,
                f"rank {worker['rank']} of {run.name} was bound to {len(worker['affinity'])} CPUs, not {wanted}",
            )
    for run in runs:
        allowed = run.summary["provenance"]["cpusAllowed"]
        for node, ranks in _ranks_by_cpu(run).items():
            users, cpu = max((len(users), cpu) for cpu, users in ranks.items())
            asked = wanted * sum(worker["node"] == node for worker in run.summary["workers"])
            if users > math.ceil(asked / allowed):
                return False, f"{users} ranks of {run.name} were bound to CPU {cpu} of {node}"
            if users > 1:
                shared = f"the ranks of {run.name} ask for {asked} CPUs of the {allowed} that {node} allows"
    if all(len(run.summary["workers"]) < 2 for run in runs):
        return None, "one worker has no other to share a CPU with"
    return (None, shared) if shared else _TRUE


def _ranks_by_cpu(run: Run) -> dict[str, dict[int, list[int]]]:
    """The ranks bound to each CPU, by node."""
    nodes: dict[str, dict[int, list[int]]] = {}
    for worker in run.summary["workers"]:
        for cpu in worker["affinity"]:
            nodes.setdefault(worker["node"], {}).setdefault(cpu, []).append(worker["rank"])
    return nodes


def _workers(runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    return ((run, worker) for run in runs for worker in run.summary["workers"])


def _equal(runs: Sequence[Run], what: str, read: Callable[[dict[str, Any]], dict[str, str]]) -> Check:
    """What every rank of every run said of its own software, compared with the first one's."""
    (first_run, first), *others = _workers(runs)
    wanted = read(first["software"])
    for run, worker in others:
        given = read(worker["software"])
        for key in sorted(wanted.keys() | given.keys()):
            if wanted.get(key) != given.get(key):
                name = "" if key == what else f" {key}"
                return False, (
                    f"rank {first['rank']} of {first_run.name} and rank {worker['rank']} of {run.name} differ in"
                    f" {what}{name}: {wanted.get(key, 'none')} and {given.get(key, 'none')}"
                )
    return _TRUE


def _framework_variables(software: dict[str, Any]) -> dict[str, str]:
    """Without Ray's own, which the other arms have no use for."""
    return {key: value for key, value in software["environment"].items() if not key.startswith("RAY_")}


def _same_work(repeat: dict[str, Run]) -> str:
    first, *others = repeat.values()
    for other in others:
        for what, amount in _work(first).items():
            if _work(other)[what] != amount:
                return f"{first.name} and {other.name} differ in {what}: {amount:g} and {_work(other)[what]:g}"
        if _steps(first)[0] == _steps(other)[0] and _steps(first) != _steps(other):
            return f"{first.name} and {other.name} differ in timed steps: {_steps(first)[1]} and {_steps(other)[1]}"
    return ""


def _work(run: Run) -> dict[str, float]:
    summary = run.summary
    seen = sum(worker["images"] for worker in summary["workers"])
    return {
        "steps an epoch": summary["stepsPerEpoch"],
        "training images": summary["trainImages"],
        "test images": summary["testImages"],
        "parameters": summary["parameters"],
        "images that the workers processed an epoch": seen / max(1, summary["epochsCompleted"]),
    }


def _steps(run: Run) -> tuple[int, int]:
    return run.summary["epochsCompleted"], run.summary["timedSteps"]


def _hashes(repeats: Sequence[dict[str, Run]], runs: Sequence[Run]) -> Check:
    """Dependencies are one for all, code is one an arm (each has its entry point), a data set may follow the seed."""
    arms = {run.arm for run in runs}
    groups = [("dependenciesHash", runs)]
    groups += [("codeHash", [run for run in runs if run.arm == arm]) for arm in sorted(arms)]
    groups += [("datasetHash", list(repeat.values())) for repeat in repeats]
    for key, group in groups:
        for run in group[1:]:
            if run.summary["provenance"][key] != group[0].summary["provenance"][key]:
                return False, f"{group[0].name} and {run.name} differ in {key}"
    for run, worker in _workers(runs):
        if worker["software"]["codeHash"] != run.summary["provenance"]["codeHash"]:
            return False, f"rank {worker['rank']} of {run.name} ran other code than rank 0"
    return _TRUE


def _reported(name: str, runs: Sequence[Run]) -> Check:
    """False if any run says so; None if an arm that could say did not: one process has no weights to compare."""
    said = {run.name: run.summary["checks"].get(name) for run in runs}
    failed = [run for run, value in said.items() if value is False]
    if failed:
        return False, f"failed in {', '.join(failed)}"
    silent = [run for run in runs if said[run.name] is None and len(run.summary["workers"]) > 1]
    if not silent and any(said.values()):
        return _TRUE
    silent = silent or list(runs)
    why = silent[0].summary["reasons"].get(name) or silent[0].summary["reasons"].get(f"checks.{name}")
    return None, f"not verified in {', '.join(run.name for run in silent)}" + (f": {why}" if why else "")
