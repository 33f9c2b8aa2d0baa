"""Turns the runs' results into the stack's outputs. What the numbers mean is decided in `compare`."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pulumi

from compare import scalars
from compare.comparison import compare
from compare.measurement import Context, Prices, Reserved, Run
from infra.plan import RunPlan
from infra.settings.settings import Settings


class RayReserve(Protocol):
    """The place's answers that a comparison needs: the resources that Ray holds there and training does not."""

    def beside_workers(self, settings: Settings) -> Reserved:
        """Return what a Ray run holds in addition to its workers."""

    def idle_ray(self, settings: Settings) -> Reserved:
        """Return what Ray holds while other arms run."""


def comparison(
    settings: Settings, place: RayReserve, plans: Sequence[RunPlan], results: Mapping[str, pulumi.Output[str]]
) -> dict[str, pulumi.Output[Any]]:
    """Return the outputs by name. A scalar that was not measured is None, which Pulumi omits from the stack's
    outputs."""
    measured = pulumi.Output.all(**results).apply(partial(compare_results, context_of(settings, place), plans))
    return {name: measured[name] for name in (*scalars.names(), "comparison")}


def compare_results(context: Context, plans: Sequence[RunPlan], results: Mapping[str, str]) -> dict[str, Any]:
    """Return every output's value; `results` are the runs' summaries as JSON, by run name."""
    runs = [Run.from_summary(plan.name, plan.repeat, json.loads(results[plan.name])) for plan in plans]
    compared = compare(runs, context)
    return {**scalars.scalars(compared), "comparison": compared.to_json()}


def context_of(settings: Settings, place: RayReserve) -> Context:
    """Return the settings of the measurement that the results do not contain."""
    return Context(
        recipe=settings.recipe,
        target=settings.target,
        repeats=settings.run.repeats,
        arms=settings.arms,
        curve=settings.workers_curve,
        absent=settings.absent_arms,
        settings=settings.explicit,
        oversubscription=settings.oversubscription,
        worker_memory_bytes=settings.run.worker_memory.bytes,
        ray_overhead=place.beside_workers(settings),
        idle_ray=place.idle_ray(settings),
        prices=Prices(cpu_hour=settings.comparison.price_cpu_hour, gib_hour=settings.comparison.price_gib_hour),
    )
