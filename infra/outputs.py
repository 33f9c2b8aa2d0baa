"""Turns the runs' results into the stack's outputs. What the numbers mean is decided in `training.comparison`."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from infra.plan import RunPlan
from infra.settings import Settings
from training.comparison import Context, Run, compare

SCALARS = ("speedup", "efficiency", "endToEndSpeedup", "rayOverhead", "accuracyGap", "breakEvenEpochs", "verdict")


def comparison(
    settings: Settings, plans: Sequence[RunPlan], results: Mapping[str, pulumi.Output[str]]
) -> dict[str, pulumi.Output[Any]]:
    """The outputs by name. A scalar that was not measured is None, which Pulumi leaves out of the stack's outputs."""
    context = Context(
        recipe=settings.recipe.to_dict(),
        target=settings.target,
        native_arm=settings.native_arm,
        repeats=settings.repeats,
        oversubscription=settings.oversubscription,
        keep_baseline=settings.keep_baseline,
        settings=settings.given,
    )
    measured = pulumi.Output.all(**results).apply(partial(compare_results, context, plans))
    return {name: measured[name] for name in (*SCALARS, "comparison")}


def compare_results(context: Context, plans: Sequence[RunPlan], results: Mapping[str, str]) -> dict[str, Any]:
    """Every output's value; `results` are the runs' summaries as JSON, by the runs' names."""
    runs = [Run(plan.name, plan.arm, plan.repeat, json.loads(results[plan.name])) for plan in plans]
    compared = compare(runs, context)
    return {name: compared.scalars().get(name) for name in SCALARS} | {"comparison": compared.to_json()}
