"""The comparison: finished runs of all arms in; ratios within a repeat, the answer and its reasons out.

Pure: the same runs give the same JSON. It reads no file, and does not run or print anything.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compare import fairness, measures
from compare.answer import Contest, answer, compare_clocks, epochs_to_win
from compare.claims import as_claimed, claim_of
from compare.clock import MOST_EPOCHS, counted_alike
from compare.compared import sides
from compare.cost import reserved
from compare.curve import at, curve, split, workers_of
from compare.idle import idle_ray_cpus
from compare.measurement import CompareError, Context, Measurement, Repeat, Run, why_absent
from compare.projection import project
from compare.qualifiers import qualifiers
from compare.ratios import link, measures_of, ratios_of, spread
from compare.schema import SCHEMA_VERSION, ArmSummary, Comparison, Estimate
from compare.verdict import Findings, details, first_words, verdict
from training.contract.arms import ARMS

NO_REPEAT = "no repeat has a run of every arm"
ONE_EPOCH = "what follows the steps of an epoch was not seen often enough: train at least two whole epochs"


def compare(runs: Sequence[Run], context: Context) -> Comparison:
    """Compare finished runs.

    Repeats that lack an arm are left out, with a reason. Raises CompareError, naming the field, when a run was not
    trained with the recipe of the others.
    """
    runs = _counted_alike([run for run in runs if run.arm in context.arms])
    wanted, of_curve = split(runs, context)
    fairness.refuse_different_recipes(wanted, context)
    for workers in context.curve:
        fairness.refuse_different_recipes([run for run in of_curve if workers_of(run) == workers], at(context, workers))
    absent = {name: why_absent(name, context) for name in ARMS if name not in context.arms}
    repeats, reasons = _complete_repeats(wanted, context)
    measurement, reasons = Measurement(context, repeats, of_curve), reasons | absent
    checks = fairness.verify(measurement) if repeats else {}
    reasons |= {f"checks.{name}": why for name, (passed, why) in checks.items() if passed is not True}
    items = fairness.work_items(measurement.workload, repeats)
    reasons |= {f"work.{name}": why for name, (known, why) in items.items() if known is not True}
    findings = _findings(measurement, checks, reasons)
    reasons |= {f"verdict.{name}": text for name, text in {**findings.qualifiers, **details(findings)}.items()}
    crossings = {name: contest.meets for name, contest in findings.contests.items()}
    return Comparison(
        schema_version=SCHEMA_VERSION,
        answer=first_words(findings.answer, list(findings.contests.values()), measurement),
        verdict=verdict(findings),
        claim=findings.claim,
        arms=findings.arms,
        absent=absent,
        ratios=findings.ratios,
        break_even=crossings if findings.claim == "same work" else {},
        break_even_epochs=_break_even_epochs(findings, reasons),
        idle_ray_cpus=findings.idle_ray_cpus,
        workload=context.recipe.workload,
        recipe=context.recipe.to_dict(),
        settings=dict(context.settings),
        checks={name: passed for name, (passed, _) in checks.items()},
        reasons=reasons,
        projection=findings.projection,
        workers_curve=findings.workers_curve,
        passes=measurement.passes(measurement.epochs_trained[0]) if measurement.runs else "",
    )


def _counted_alike(runs: Sequence[Run]) -> list[Run]:
    results = counted_alike([run.result for run in runs])
    return [replace(run, result=result) for run, result in zip(runs, results, strict=True)]


def _findings(measurement: Measurement, checks: Mapping[str, fairness.Check], reasons: dict[str, str]) -> Findings:
    """Collect what the verdict is made of. After a failed check there is no ratio: unlike things can't be compared."""
    failed = [name for name, (passed, _) in checks.items() if passed is False]
    claim, lacks = claim_of(measurement, checks)
    contests: dict[str, Contest] = {}
    ratios: dict[str, Estimate | None] = {each.name: None for each in measures.ratios_of(measurement.recipe.workload)}
    gaps: list[float] = []
    projection = workers_curve = None
    if failed or not measurement.repeats:
        why = f"not comparable: {', '.join(failed)} failed" if failed else NO_REPEAT
        of_all = (*ratios, "breakEvenEpochs", "idleRayCpus", "workersCurve", "projection")
        reasons |= dict.fromkeys((*of_all, "claim") if claim is None else of_all, why)
    else:
        contests = compare_clocks(measurement, claim)
        ratios = as_claimed(ratios_of(measurement, reasons), claim, reasons)
        gaps = idle_ray_cpus(measurement, reasons)
        if claim == "same work":
            projection = project(measurement, reasons)
            workers_curve = curve(measurement, projection, reasons)
        else:
            reasons |= dict.fromkeys(("projection", "workersCurve"), f"the claim is `{claim}`: {lacks}")
    idle = spread(gaps) if gaps else None
    return Findings(
        measurement=measurement,
        answer="Not comparable" if failed else answer(list(contests.values()), claim),
        claim=claim,
        claim_lacks=lacks,
        contests=contests,
        ratios=ratios,
        arms={name: _arm_summary(name, measurement, reasons) for name in measurement.arms},
        checks=checks,
        qualifiers=qualifiers(measurement, ratios, idle, checks),
        idle_ray_cpus=idle,
        projection=projection,
        workers_curve=workers_curve,
    )


def _complete_repeats(runs: Sequence[Run], context: Context) -> tuple[list[Repeat], dict[str, str]]:
    """The repeats that have every arm, in order, and why the others are left out."""
    repeats: dict[int, Repeat] = {number: {} for number in range(1, context.repeats + 1)}
    for run in sorted(runs, key=lambda run: (run.repeat, context.arms.index(run.arm))):
        present = repeats.setdefault(run.repeat, {}).setdefault(run.arm, run)
        if present is not run:
            raise CompareError(f"repeat {run.repeat} has two runs of {run.arm}: {present.name} and {run.name}")
    lacking = {number: [arm for arm in context.arms if arm not in repeats[number]] for number in sorted(repeats)}
    reasons = {f"repeats.{n}": f"left out: no run of {' and '.join(arms)}" for n, arms in lacking.items() if arms}
    if len(reasons) == len(lacking):
        reasons |= dict.fromkeys(context.arms, NO_REPEAT)
    return [repeats[number] for number, arms in lacking.items() if not arms], reasons


def _break_even_epochs(findings: Findings, reasons: dict[str, str]) -> int | None:
    """Return from how many epochs on Ray takes less than each alternative, with 95 % confidence; else None, and why."""
    contests = findings.contests
    epochs = epochs_to_win(list(contests.values()))
    if findings.claim != "same work" and contests:
        reasons["breakEvenEpochs"] = f"the claim is `{findings.claim}`: epochs are compared of the same work alone"
    elif epochs is None and contests:
        behind = [each for each in contests.values() if each.epochs_to_win is None]
        reasons["breakEvenEpochs"] = "; ".join(dict.fromkeys(_why_no_break_even(each) for each in behind))
    return epochs


def _why_no_break_even(contest: Contest) -> str:
    if contest.per_epoch is None:
        return ONE_EPOCH
    if contest.per_epoch.lower is None:
        return "one repeat has no interval"
    text = f"without start-up, one epoch of Ray {sides([(contest.per_epoch, contest.against)])}"
    if contest.per_epoch.lower > 1:
        return f"{text}: too little to make up for its start within {MOST_EPOCHS:,} epochs, with 95 % confidence"
    if contest.per_epoch.upper is not None and contest.per_epoch.upper < 1:
        return f"{text}, so no number of epochs makes up for the start-up"
    return f"{text}: it is not proven faster, so no number of epochs can be given"


def _arm_summary(name: str, measurement: Measurement, reasons: dict[str, str]) -> ArmSummary:
    arm, runs = ARMS[name], measurement.of(name)
    first = runs[0].result
    if first.ray is None:
        reasons[f"{name}.ray"] = first.reasons.get("ray", "this arm runs without Ray")
    if first.workers[0].compute_threads is None:
        reasons[f"{name}.computeThreads"] = first.reasons.get("workers.computeThreads", "not counted")
    return ArmSummary(
        role=arm.role,
        title=arm.words(measurement.recipe),
        measures=measures_of(name, measurement, reasons),
        startup_phases=_median_phases(runs),
        world_size=first.world_size,
        compute_threads=first.workers[0].compute_threads,
        reserved_cpus=reserved(name, measurement.context).cpus,
        steps_per_epoch=first.steps.per_epoch,
        work=first.work,
        provenance=first.provenance,
        ray=first.ray,
        runs=[link(run) for run in runs],
    )


def _median_phases(runs: Sequence[Run]) -> dict[str, float]:
    phases: dict[str, list[float]] = {}
    for run in runs:
        for name, seconds in run.result.seconds.phases.items():
            phases.setdefault(name, []).append(seconds)
    return {name: float(statistics.median(seconds)) for name, seconds in phases.items()}
