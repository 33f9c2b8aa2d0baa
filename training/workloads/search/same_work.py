"""Whether the arms of a search did the same: their trials, one by one. Pure."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from training.contract.arms import ARMS
from training.contract.result import FAILED, TrainingResult
from training.workloads.search.detail import COUNTED
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.summary import CONFIGURATIONS, EPOCHS, METRICS, UNKNOWN, WEIGHTS

TOLERANCE = 0.01
"""Largest part of a metric by which equal trials may differ if they have different numbers of threads and no tolerance
is set, because other threads add in another order."""
Known = tuple[bool | None, str]
REPRODUCED = 4
"""Number of trials with equal weights in two arms from which training counts as reproducible. Chance with few outcomes,
such as the order of a set, makes some weights equal."""
_WORDS = {
    CONFIGURATIONS: "the same configurations, trial by trial",
    EPOCHS: "as many epochs in each trial",
    WEIGHTS: "equal weights at the end of each trial",
    METRICS: "the same metric at the end of each trial",
    **{name: f"as many {name} in each trial" for name in COUNTED},
}


def of_results(results: Sequence[TrainingResult]) -> Mapping[str, Known]:
    """Return for each item whether the arms of a repeat are the same in it, with a sentence that says so."""
    recipe = SearchRecipe.from_dict(results[0].recipe)
    if recipe.is_population:
        return _population(results)
    if failed := _different_failures(results):
        return {EPOCHS: (False, failed)}
    chosen = recipe.search_algorithm != "random"
    return {
        CONFIGURATIONS: (None, "each arm's algorithm chose configurations of its own")
        if chosen
        else _equal(results, CONFIGURATIONS, "another configuration"),
        EPOCHS: (None, "stopping chose how many epochs each trial trained")
        if recipe.search_scheduler != "none"
        else _equal(results, EPOCHS, "another number of epochs"),
        **({} if chosen or recipe.search_scheduler != "none" else _same_training(results, recipe)),
    }


def _population(results: Sequence[TrainingResult]) -> Mapping[str, Known]:
    """Return what is known of the arms where one is a population, in which nothing is compared trial by trial. Trials
    of a population change their values, and the other arms make other numbers of trials."""
    failing = {FAILED in _words(each, METRICS): each.arm for each in results}
    if len(failing) > 1:
        return {EPOCHS: (False, f"trials failed in the arm {failing[True]} and none in {failing[False]}")}
    return {
        CONFIGURATIONS: (None, "population based training changes the values while it trains"),
        EPOCHS: (None, "stopping and handing over chose how many epochs each trial trained"),
    }


def _different_failures(results: Sequence[TrainingResult]) -> str:
    first, *others = [[word == FAILED for word in _words(each, METRICS)] for each in results]
    for result, failed in zip(results[1:], others, strict=True):
        if failed != first:
            number = next(number for number, pair in enumerate(zip(first, failed, strict=True)) if len(set(pair)) > 1)
            where = results[0].arm if first[number] else result.arm
            return f"trial {number} failed in the arm {where} and not in the other"
    return ""


def _same_training(results: Sequence[TrainingResult], recipe: SearchRecipe) -> dict[str, Known]:
    """Compare the training of trials, by weights among arms with equal threads for a trial, and by the metric for an
    arm with others. Counts that differ prove different work, whatever chance does; missing counts do not prove equal
    work."""
    counted = {name: _equal(results, name, f"another number of {name}") for name in COUNTED}
    alike: dict[int, list[TrainingResult]] = {}
    for result in results:
        alike.setdefault(ARMS[result.arm].compute_threads(recipe), []).append(result)
    groups = list(alike.values())
    weights = [_weights(group, recipe) for group in groups if len(group) > 1]
    worst = min(weights, key=lambda known: {False: 0, None: 1, True: 2}[known[0]], default=(True, _WORDS[WEIGHTS]))
    return {
        **{name: known for name, known in counted.items() if known[0] is not None},
        WEIGHTS: worst,
        METRICS: _near([group[0] for group in groups], recipe),
    }


def _weights(alike: Sequence[TrainingResult], recipe: SearchRecipe) -> Known:
    """Compare the weights of arms that compute alike. Different weights prove different work only if training is known
    to end the same every time. Otherwise they may be chance: no seed, or sums that several threads add in any order."""
    equal, words = _equal(alike, WEIGHTS, "other weights")
    if equal is not False:
        return equal, words
    if _has_one_order(alike, recipe):
        for first, other in combinations(alike, 2):
            if _reproduces(first, other):
                return False, f"{words}, and in all trials the same in {first.arm} as in {other.arm}"
    return None, (
        f"{words}, by chance or by other work: a seed, as `--seed {{seed}}` in scriptArguments, and one CPU a trial "
        "would tell"
    )


def _has_one_order(alike: Sequence[TrainingResult], recipe: SearchRecipe) -> bool:
    """Return whether sums are always added in one order: by one thread, two workers at most, on one kind of CPU."""
    processors = {worker.cpu_model for result in alike for worker in result.workers}
    return ARMS[alike[0].arm].compute_threads(recipe) == 1 and recipe.trial_workers <= 2 and len(processors) == 1


def _reproduces(first: TrainingResult, other: TrainingResult) -> bool:
    weights = _words(first, WEIGHTS)
    return weights == _words(other, WEIGHTS) and len(weights) - weights.count(FAILED) >= REPRODUCED


def _near(results: Sequence[TrainingResult], recipe: SearchRecipe) -> Known:
    """Compare the metrics of arms whose trials have different numbers of threads; a difference never proves different
    work, because their sums differ."""
    for first, other in pairwise(results):
        for number, pair in enumerate(zip(_words(first, METRICS), _words(other, METRICS), strict=True)):
            if {FAILED, UNKNOWN} & {*pair}:
                continue
            left, right = map(float, pair)
            allowed = (
                recipe.metric_tolerance
                if recipe.metric_tolerance is not None
                else TOLERANCE * max(abs(left), abs(right))
            )
            if abs(left - right) > allowed:
                return None, (
                    f"trial {number} ended with {recipe.metric} {left:g} in the arm {first.arm} and {right:g} in "
                    f"{other.arm}, which has other threads a trial"
                )
    return True, _WORDS[METRICS]


def _equal(results: Sequence[TrainingResult], item: str, what: str) -> Known:
    for first, other in pairwise(results):
        for number, (left, right) in enumerate(zip(_words(first, item), _words(other, item), strict=True)):
            if UNKNOWN in (left, right):
                return None, f"{item} of trial {number} are not known"
            if left != right:
                return False, f"trial {number} had {what} in the arm {first.arm} than in {other.arm}"
    return True, _WORDS[item]


def _words(result: TrainingResult, item: str) -> list[str]:
    """Return one word for each trial; an item that nobody looked for is UNKNOWN in every trial."""
    return result.did[item].split(" ") if item in result.did else [UNKNOWN] * len(_words(result, METRICS))
