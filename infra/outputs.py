"""Turns the runs' results into the stack's outputs. What the numbers mean is decided in `compare`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pulumi

from compare.comparison import compare, scalar_names, scalars
from compare.measurement import CompareError, Context, Prices, Run, SpotTerms
from infra.plan import RunPlan, Site
from infra.settings.settings import Settings


class Ground(Protocol):
    """The resources that a place has declared."""

    @property
    def results(self) -> Mapping[str, pulumi.Output[str]]:
        """Return the summary of each run's result, canonical JSON, by the run's name."""

    @property
    def outputs(self) -> Mapping[str, pulumi.Input[Any]]:
        """Return the stack's outputs other than the comparison, by name."""


def comparison(
    settings: Settings, site: Site, plans: Sequence[RunPlan], ground: Ground
) -> dict[str, pulumi.Input[Any]]:
    """Return the stack's outputs by name. A number that was not measured is None, which Pulumi leaves out of the
    outputs.

    The comparison is marked as a secret only because of its length: `pulumi up` prints every output, and would print
    this JSON as a tree of a thousand lines, but prints a secret in one line (docs/adr/0003).
    """
    context = context_of(settings, site, plans)
    measured = pulumi.Output.all(**ground.results).apply(partial(compare_results, context, plans))
    scalars_by_name = {name: measured[name] for name in scalar_names(context)}
    return {**scalars_by_name, "comparison": pulumi.Output.secret(measured["comparison"]), **ground.outputs}


def compare_results(context: Context, plans: Sequence[RunPlan], results: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of the stack's outputs, by the output's name.

    Args:
        context: What the comparison needs to know and the results do not contain.
        plans: The plans of all runs.
        results: The summaries of the runs' results as JSON, by the run's name. A summary is None if `refresh` or
            `destroy` with `--run-program` declared the run but did not execute it; such a run is not compared.

    Raises RunError, which Pulumi shows without a traceback, if the results are not a measurement of one recipe.
    """
    finished = [(plan, summary) for plan in plans if (summary := results[plan.name]) is not None]
    try:
        runs = [Run.from_summary(plan.name, plan.repeat, json.loads(summary)) for plan, summary in finished]
        if context.is_auto:  # there are as many as have finished
            context = replace(context, repeats=max((run.repeat for run in runs), default=context.repeats))
        compared = compare(runs, context)
    except CompareError as error:
        raise pulumi.RunError(str(error)) from None
    return {**scalars(compared), "comparison": compared.to_json()}


def context_of(settings: Settings, site: Site, plans: Sequence[RunPlan]) -> Context:
    """Return what the comparison needs to know about the measurement and the results do not contain."""
    of_comparison = settings.comparison
    factor, interruptions = of_comparison.price_spot_factor, of_comparison.interruptions_per_hour
    return Context(
        recipe=settings.recipe,
        target=settings.target,
        repeats=max(plan.repeat for plan in plans),
        is_auto=settings.run.repeats.is_auto,
        key=plans[0].measurement,
        arms=settings.arms,
        curve=settings.workers_curve,
        absent=settings.absent_arms,
        settings=settings.explicit,
        oversubscription=settings.oversubscription,
        run_timeout_minutes=settings.run.run_timeout_minutes,
        worker_memory_bytes=settings.run.worker_memory.bytes,
        ray_overhead=site.ray_overhead,
        idle_ray=site.idle_ray,
        workers_gone_seconds=site.workers_gone_seconds,
        prices=Prices(
            cpu_hour=of_comparison.price_cpu_hour,
            gib_hour=of_comparison.price_gib_hour,
            gpu_hour=of_comparison.price_gpu_hour,
        ),
        spot=SpotTerms(factor, interruptions) if factor is not None and interruptions is not None else None,
    )
