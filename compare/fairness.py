"""Whether runs may be compared: refuses different recipes, and verifies the fairness rules on the results.

It judges what the results say and measures nothing itself. The rules are the design's "Fair by construction".
Standard library only.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from compare.measurement import CompareError, Context, Measurement, Repeat, Run
from training.arms import ARMS
from training.config import Recipe

Check = tuple[bool | None, str]
"""What was found, and why where that is not True."""

_TRUE: Check = (True, "")

_FROM_RUNS = ("shardsCoverDataSet", "weightsEqual")
"""Checks that only a run can make (`TrainingResult.checks`): always listed, beside whatever else the runs checked."""


def refuse_different_recipes(runs: Sequence[Run], context: Context) -> None:
    """Raise CompareError naming the first field in which a run was not trained as the stack asks.

    `seed` must be that of the run's repeat; what an arm ignores may be absent or different.
    """
    for run in runs:
        recipe = context.recipe.to_dict()
        wanted = recipe | {"seed": context.recipe.seed + run.repeat - 1}
        given = run.result.recipe
        for key in sorted((set(wanted) | set(given)) - set(ARMS[run.arm].ignores)):
            if given.get(key) != wanted.get(key):
                raise CompareError(
                    f"recipes differ in `{key}`: {run.name} was trained with {given.get(key)!r} and the comparison "
                    f"needs {wanted.get(key)!r}; run `make up` to measure all arms with one recipe"
                )


def verify(measurement: Measurement) -> dict[str, Check]:
    """Every check by name, over complete repeats whose recipes were found equal."""
    runs, repeats, recipe = measurement.runs, measurement.repeats, measurement.recipe
    names = sorted({name for run in runs for name in run.result.checks} | set(_FROM_RUNS))
    reported = {name: _reported(name, runs) for name in names}
    checks: dict[str, Check] = {
        "recipesEqual": _TRUE,
        "seedsPaired": _TRUE,
        "replicasAsAsked": _first_broken(runs, lambda run: _replicas(run, recipe)),
        "threadsAsAsked": _first_broken(runs, lambda run: _threads(run, recipe)),
        "sameWork": _first_broken(repeats, _same_work),
        "hashesEqual": _hashes(repeats, runs),
    }
    return checks | {name: check for name, check in reported.items() if name not in checks or check[0] is False}


def _first_broken(subjects: Iterable[Any], problem: Callable[[Any], str]) -> Check:
    return next(((False, text) for text in map(problem, subjects) if text), _TRUE)


def _replicas(run: Run, recipe: Recipe) -> str:
    wanted = ARMS[run.arm].processes(recipe)
    saw, reported = run.result.world_size, len(run.result.workers)
    if saw != wanted:
        return f"{run.name} trained with {saw} replica(s) where {wanted} were expected"
    if reported != wanted:
        return f"{run.name} has reports of {reported} worker(s) where {wanted} were expected"
    return ""


def _threads(run: Run, recipe: Recipe) -> str:
    wanted = max(1, math.ceil(ARMS[run.arm].process_cpus(recipe)))
    for worker in run.result.workers:
        if worker.compute_threads != wanted:
            return f"rank {worker.rank} of {run.name} had {worker.compute_threads} compute threads, not {wanted}"
    return ""


def _same_work(repeat: Repeat) -> str:
    first, *others = repeat.values()
    for other in others:
        for what, amount in _work(first).items():
            if _work(other)[what] != amount:
                return f"{first.name} and {other.name} differ in {what}: {amount:g} and {_work(other)[what]:g}"
        if _steps(first)[0] == _steps(other)[0] and _steps(first) != _steps(other):
            return f"{first.name} and {other.name} differ in timed steps: {_steps(first)[1]} and {_steps(other)[1]}"
    return ""


def _work(run: Run) -> dict[str, float]:
    result = run.result
    processed = sum(worker.images for worker in result.workers)
    return {
        "steps an epoch": result.steps_per_epoch,
        "training images": result.train_images,
        "test images": result.test_images,
        "parameters": result.parameters,
        "images that the workers processed an epoch": processed / max(1, result.epochs_completed),
    }


def _steps(run: Run) -> tuple[int, int]:
    return run.result.epochs_completed, run.result.timed_steps


def _hashes(repeats: Sequence[Repeat], runs: Sequence[Run]) -> Check:
    """Dependencies are one for all, code is one an arm (each has its entry point), a data set may follow the seed."""
    arms = sorted({run.arm for run in runs})
    groups: list[tuple[str, str, Sequence[Run]]] = [("dependenciesHash", "dependencies_hash", runs)]
    groups += [("codeHash", "code_hash", [run for run in runs if run.arm == arm]) for arm in arms]
    groups += [("datasetHash", "dataset_hash", list(repeat.values())) for repeat in repeats]
    for name, field, group in groups:
        hash_of = attrgetter(f"result.provenance.{field}")
        for run in group[1:]:
            if hash_of(run) != hash_of(group[0]):
                return False, f"{group[0].name} and {run.name} differ in {name}"
    return _TRUE


def _reported(name: str, runs: Sequence[Run]) -> Check:
    """False if any run says so; None if an arm that could say did not: one process has no weights to compare."""
    failed = [run.name for run in runs if run.result.checks.get(name) is False]
    if failed:
        return False, f"failed in {', '.join(failed)}"
    silent = [run for run in runs if run.result.checks.get(name) is None and len(run.result.workers) > 1]
    if not silent and any(run.result.checks.get(name) for run in runs):
        return _TRUE
    silent = silent or list(runs)
    why = silent[0].result.reasons.get(name) or silent[0].result.reasons.get(f"checks.{name}")
    return None, f"not verified in {', '.join(run.name for run in silent)}" + (f": {why}" if why else "")
