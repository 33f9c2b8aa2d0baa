"""The comparison: finished runs of all arms in; ratios within a repeat, the answer and its reasons out.

Pure: the same runs give the same JSON. It reads no file, and does not run or print anything.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from compare import fairness, measures, quiet
from compare.answer import NOT_SAID, answer, claim_of, compare_clocks, epochs_to_win
from compare.bound import NOT_DISTRIBUTED, RAY_TRAINED, bound_of
from compare.curve import Curve, curve
from compare.entries import Ratio
from compare.intervals import Rule, difference, estimate, rule_of, spread
from compare.measurement import NO_REPEAT, Context, Measurement, Run, measure
from compare.measures import numbers_of
from compare.projection import project
from compare.qualifiers import qualifiers
from compare.ray_data import GAIN, ROWS_EQUAL, data_pair
from compare.run_numbers import link, reserved
from compare.schema import (
    SCHEMA_VERSION,
    ArmSummary,
    Claim,
    Comparison,
    Distribution,
    Estimate,
    Spread,
    WorkersCurve,
)
from compare.search import search_of
from compare.spot import spot_of
from compare.step_parts import step_times
from compare.stopping import ending, longer_run
from compare.value import Check, Missing, Summary, Value
from compare.verdict import Findings, MeasuredArm, details, first_words, verdict
from training.contract.arms import ARMS, RAY
from training.contract.recipe import canonical
from training.contract.workload import named

T = TypeVar("T")
REPEATS = "repeats"
"""Name of the output with the number of compared repeats."""
OF_CURVE = ("stopsPayingAt", "costsMoreFrom")
"""Outputs of the workers' curve, if a curve was measured."""
OWN_RANKS = "this project made no ranks"
"""Reason why nothing is said of how the ranks were made: the script made its ranks itself, or has none."""
OF_SPOT = ("spotCostRatio", "spotStopsPayingAt")
"""Outputs of Ray on spot capacity, if the price of spot capacity is set."""
OF_SEARCH = ("bestConfig", "bestMetric", "trials", "breakEvenTrialSeconds")
"""Outputs of a search."""


def compare(runs: Sequence[Run], context: Context) -> Comparison:
    """Return the comparison of finished runs. Repeats that lack a run of some arm are left out, with a reason. Raise
    CompareError as `measure` does."""
    findings = find(runs, context)
    measurement, contests, points = findings.measurement, findings.contests, findings.workers_curve
    first, text = first_words(findings.answer, list(contests.values()), measurement), verdict(findings)
    remarks = {**findings.qualifiers, **details(findings)}
    return Comparison(
        schema_version=SCHEMA_VERSION,
        answer=first,
        verdict=text,
        claim=findings.claim,
        arms={name: arm.summary for name, arm in findings.arms.items()},
        absent=dict(measurement.absent),
        ratios={name: known(ratio.value) for name, ratio in findings.ratios.items()},
        break_even={name: known(each.meets) for name, each in contests.items() if findings.claim == "same work"},
        break_even_epochs=known(findings.break_even_epochs),
        idle_ray_cpus=known(findings.idle_ray_cpus.value),
        workload=context.recipe.workload,
        recipe=context.recipe.to_dict(),
        settings=dict(context.settings),
        checks={name: check.passed for name, check in _checks(findings).items()},
        reasons=_reasons(findings) | {f"verdict.{name}": remark for name, remark in remarks.items()},
        projection=known(findings.projection),
        workers_curve=None if isinstance(points, Missing) else _curve(points),
        search=None if isinstance(findings.search, Missing) else findings.search.summary(),
        longer=known(findings.longer),
        spot=known(findings.spot),
        passes=measurement.passed,
        bound=findings.bound.summary if findings.bound else None,
        distribution=known(_distribution(measurement)),
        measurement=context.key,
        auto=findings.ending or "",
    )


def _checks(findings: Findings) -> dict[str, Check]:
    """Return the checks of all compared arms, and that of the arm with Ray Data, which has no say in the answer."""
    with_data = findings.with_data
    return {**findings.fairness.checks, **({ROWS_EQUAL: with_data.rows} if with_data else {})}


def known(value: T | Missing) -> T | None:
    """Return the value; None, as JSON has it, if the value is missing."""
    return None if isinstance(value, Missing) else value


def find(runs: Sequence[Run], context: Context) -> Findings:
    """Return all findings of the comparison. After a failed check there is no ratio but that with Ray Data, which has
    checks of its own, because unlike arms cannot be compared."""
    measurement = measure(runs, context)
    rule = rule_of(measurement)
    others = quiet.observe(measurement)
    fair = fairness.verify(measurement, others.check)
    claim, lacks = claim_of(measurement, fair)
    bound = bound_of(measurement, fair)
    if bound:  # the arms say nothing of a distributed run
        claim, lacks = None, NOT_DISTRIBUTED
    numbers, catalogue = (
        numbers_of(measurement),
        measures.ratios_of(context.recipe.workload, context.recipe.worker_gpus),
    )
    why_nothing = lacks if fair.failed else "" if measurement.repeats else NO_REPEAT
    with_data = data_pair(measurement)
    if why_nothing:
        nothing = Missing(why_nothing)
        ratios = {each.name: _unsaid(each, numbers.ratios[each.name], context, nothing) for each in catalogue}
        contests = {}
        if not isinstance(others.idle_ray_cpus.value, Missing):
            others = replace(others, idle_ray_cpus=Summary(nothing))
    else:
        ratios = {each.name: _ratio(each, numbers.ratios[each.name], claim, rule) for each in catalogue}
        contests = compare_clocks(measurement, claim)
    if with_data:  # by itself: whether the other arms can be compared says nothing of these two
        gain = next(each for each in catalogue if each.name == GAIN)
        ratios[GAIN] = with_data.gain(_ratio(gain, numbers.ratios[GAIN], gain.claims[0], rule))
    epochs = Missing(why_nothing or lacks) if why_nothing or bound else epochs_to_win(list(contests.values()))
    words = "Not comparable" if fair.failed else bound.answer if bound else answer(list(contests.values()), claim)
    longer = Missing(lacks) if bound else longer_run(words, measurement, list(contests.values()))
    repeats, is_final = len(measurement.repeats), words == "Not worth it here" and isinstance(longer, Missing)
    of_arms = ending(words, list(contests.values()), claim, repeats, is_final=is_final)
    why_no_model = why_nothing or (
        lacks if bound else "" if claim == "same work" else f"the claim is `{claim}`: {lacks}"
    )
    points = Missing(why_no_model) if why_no_model and context.curve else curve(measurement)
    projection = Missing(why_no_model) if why_no_model else project(measurement, points)
    estimates = {name: ratio.value for name, ratio in ratios.items() if isinstance(ratio.value, Estimate)}
    return Findings(
        measurement=measurement,
        fairness=fair,
        claim=claim,
        claim_lacks=lacks,
        answer=words,
        contests=contests,
        break_even_epochs=epochs,
        ratios=ratios,
        idle_ray_cpus=others.idle_ray_cpus,
        projection=projection,
        workers_curve=points,
        spot=spot_of(measurement, why_nothing),
        search=search_of(measurement, claim, why_nothing),
        qualifiers=qualifiers(measurement, estimates, others, fair.checks),
        arms={name: _arm(name, measurement, numbers.of_arms[name]) for name in numbers.of_arms},
        with_data=with_data,
        longer=longer,
        bound=bound,
        ending=(bound.ending(repeats) if bound else of_arms) if context.is_auto else None,
    )


def _ratio(each: Ratio, values: Sequence[Value], claim: Claim | None, rule: Rule) -> Summary[Estimate]:
    """Return the ratio over the repeats that have it, or why the claim does not allow the ratio."""
    quotient = partial(estimate, words=each.words, rule=rule)
    summary = _over_repeats(values, partial(difference, rule=rule) if each.kind == "difference" else quotient)
    if isinstance(summary.value, Missing) or claim in each.claims:
        return summary
    return Summary(Missing(NOT_SAID.get(claim, "the claim does not allow it")))


def _unsaid(each: Ratio, values: Sequence[Value], context: Context, why: Missing) -> Summary[Estimate]:
    """Return why a ratio is not given: if it cannot exist with these settings, their reason."""
    own = next((value for value in values if isinstance(value, Missing)), why)
    return Summary(why if each.can_exist(context) else own)


def _over_repeats(values: Sequence[Value], together: Callable[[Sequence[float]], T]) -> Summary[T]:
    numbers = [value for value in values if not isinstance(value, Missing)]
    reason = next((value.reason for value in values if isinstance(value, Missing)), "")
    return Summary(together(numbers), reason) if numbers else Summary(Missing(reason))


def _arm(name: str, measurement: Measurement, values: Mapping[str, Sequence[Value]]) -> MeasuredArm:
    runs = measurement.by_arm[name]
    results = [run.result for run in runs]
    first, step_parts = results[0], step_times(results, rule_of(measurement).confidence)
    spreads = {measure: _over_repeats(of_runs, spread).value for measure, of_runs in values.items()}
    missing = {measure: value for measure, value in spreads.items() if isinstance(value, Missing)}
    reasons = (entry for run in runs for entry in run.result.reasons.items())
    missing |= {key: Missing(why) for key, why in reasons if key.startswith("stepParts.")}
    if isinstance(step_parts, Missing):
        missing["stepParts"] = step_parts
    threads = first.workers[0].compute_threads
    if first.ray is None:
        missing["ray"] = Missing(first.reasons.get("ray", "this arm runs without Ray"))
    if threads is None:
        missing["computeThreads"] = Missing(first.reasons.get("workers.computeThreads", "not counted"))
    summary = ArmSummary(
        role=ARMS[name].role(measurement.recipe.workload, measurement.recipe.worker_gpus),
        title=measurement.requests[name].title,
        measures={measure: known(value) for measure, value in spreads.items()},
        startup_phases=_median_phases(runs),
        world_size=first.world_size,
        compute_threads=threads,
        reserved_cpus=reserved(name, measurement.context).cpus,
        steps_per_epoch=first.steps.per_epoch,
        work=first.work,
        provenance=first.provenance,
        ray=first.ray,
        runs=[link(run) for run in runs],
        step_parts=known(step_parts),
    )
    return MeasuredArm(summary, missing)


def _median_phases(runs: Sequence[Run]) -> dict[str, float]:
    phases: dict[str, list[float]] = {}
    for run in runs:
        for name, seconds in run.result.seconds.phases.items():
            phases.setdefault(name, []).append(seconds)
    return {name: float(statistics.median(seconds)) for name, seconds in phases.items()}


def _distribution(measurement: Measurement) -> Distribution | Missing:
    """Return how the ranks were made, with the smallest port if a run has one, or why nothing is said of that."""
    runs = [run for of_arm in measurement.by_arm.values() for run in of_arm]
    made_ranks = [(run.arm, run.result.made_ranks) for run in runs if run.result.made_ranks]
    if not made_ranks:
        return Missing(OWN_RANKS)
    with_port = next((ranks for _, ranks in made_ranks if ranks.port), made_ranks[0][1])
    return Distribution(
        arms={arm: ranks.words for arm, ranks in made_ranks},
        proof="; ".join(dict.fromkeys(ranks.proof for _, ranks in made_ranks)),
        write=with_port.write,
        port=with_port.port,
    )


def _curve(points: Curve) -> WorkersCurve:
    stops, dearer = known(points.stops_paying_at), known(points.costs_more_from)
    return WorkersCurve(points=points.points, stops_paying_at=stops, costs_more_from=dearer)


def _reasons(findings: Findings) -> dict[str, str]:
    """Return why a value is null, a check is not true or a repeat is left out, by name."""
    measurement, points, search = findings.measurement, findings.workers_curve, findings.search
    values: dict[str, object] = {
        "breakEvenEpochs": findings.break_even_epochs,
        "projection": findings.projection,
        "workersCurve": points,
        "longer": findings.longer,
        "spot": findings.spot,
        "bound": findings.bound or Missing(RAY_TRAINED),
        "distribution": _distribution(measurement),
        **({"search": search} if isinstance(search, Missing) else search.missing()),
    }
    if not isinstance(points, Missing):
        values |= {"stopsPayingAt": points.stops_paying_at, "costsMoreFrom": points.costs_more_from}
    for name, arm in findings.arms.items():
        values |= {f"{name}.{part}": missing for part, missing in arm.missing.items()}
    summaries: dict[str, Summary[Estimate] | Summary[Spread]] = {
        **findings.ratios,
        "idleRayCpus": findings.idle_ray_cpus,
    }
    values |= {name: summary.value for name, summary in summaries.items()}
    reasons = {
        **measurement.left_out,
        **measurement.absent,
        **{f"checks.{name}": check.why for name, check in _checks(findings).items() if check.passed is not True},
        **{f"work.{name}": check.why for name, check in findings.fairness.work.items() if check.passed is not True},
        **{name: summary.warning for name, summary in summaries.items()},
        **{name: value.reason for name, value in values.items() if isinstance(value, Missing)},
        "claim": findings.claim_lacks if findings.claim is None else "",
    }
    return {key: why for key, why in reasons.items() if why}


def scalar_names(context: Context | None = None) -> list[str]:
    """Return the names of the stack's scalar outputs, in the order in which they are shown. With a context only
    outputs that can exist with these settings are returned, because a preview would show any other output as unknown
    for ever."""
    if context is None:
        ratios, of_ray = ([each.name for each in entries] for entries in (measures.RATIOS, measures.OUTPUTS))
        return ["answer", "verdict", REPEATS, *ratios, "breakEvenEpochs", *OF_SEARCH, *OF_CURVE, *OF_SPOT, *of_ray]
    recipe = context.recipe
    had = [each.name for each in measures.ratios_of(recipe.workload, recipe.worker_gpus) if each.can_exist(context)]
    of_ray = [each.name for each in measures.OUTPUTS if each.output_if and each.output_if(context)]
    return [
        *("answer", "verdict", REPEATS, *had, "breakEvenEpochs"),
        *(OF_SEARCH if named(recipe.workload).searches else ()),
        *(OF_CURVE if context.curve else ()),
        *(OF_SPOT if context.spot and RAY.name in context.arms else ()),
        *(of_ray if RAY.name in context.arms else ()),
    ]


def scalars(comparison: Comparison) -> dict[str, float | str | None]:
    """Return medians over the repeats and the answer, by output name; None for what was not measured."""
    ray = comparison.arms.get(RAY.name)
    ratios = comparison.ratios.items()
    values: dict[str, float | str | None] = dict.fromkeys(scalar_names())
    values |= {name: value.median if value else None for name, value in ratios if name in values}
    values |= {each.name: ray.median(each.name) if ray else None for each in measures.OUTPUTS}
    values |= {"answer": comparison.answer, "verdict": comparison.verdict, REPEATS: comparison.repeats}
    curve = comparison.workers_curve
    values |= {"stopsPayingAt": curve.stops_paying_at if curve else None}
    values |= {"costsMoreFrom": curve.costs_more_from if curve else None}
    if of_spot := comparison.spot.arms.get(RAY.name) if comparison.spot else None:
        ratio = of_spot.cost_ratio.median if of_spot.cost_ratio else None
        values |= dict(zip(OF_SPOT, (ratio, of_spot.stops_paying_at), strict=True))
    if search := comparison.search:
        of_search = (search.best_config, search.best_metric, canonical(search.trials), search.break_even_trial_seconds)
        values |= dict(zip(OF_SEARCH, of_search, strict=True))
    return values | {"breakEvenEpochs": comparison.break_even_epochs}
