"""Turns the runs' results into the stack's outputs. What the numbers mean is decided in `compare`."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from compare import scalars
from compare.comparison import compare
from compare.measurement import Context, Prices, Reserved, Run
from infra.plan import RunPlan
from infra.settings.fit import SUBMITTER
from infra.settings.settings import Settings


def comparison(
    settings: Settings, plans: Sequence[RunPlan], results: Mapping[str, pulumi.Output[str]]
) -> dict[str, pulumi.Output[Any]]:
    """The outputs by name. A scalar that was not measured is None, which Pulumi leaves out of the stack's outputs."""
    measured = pulumi.Output.all(**results).apply(partial(compare_results, context_of(settings), plans))
    return {name: measured[name] for name in (*scalars.names(), "comparison")}


def compare_results(context: Context, plans: Sequence[RunPlan], results: Mapping[str, str]) -> dict[str, Any]:
    """Every output's value; `results` are the runs' summaries as JSON, by the runs' names."""
    runs = [Run.from_summary(plan.name, plan.repeat, json.loads(results[plan.name])) for plan in plans]
    compared = compare(runs, context)
    return {**scalars.scalars(compared), "comparison": compared.to_json()}


def context_of(settings: Settings) -> Context:
    """How the runs were asked for."""
    return Context(
        recipe=settings.recipe,
        target=settings.target,
        repeats=settings.repeats,
        arms=settings.arms,
        curve=settings.workers_curve,
        absent=settings.absent_arms,
        settings=settings.given,
        oversubscription=settings.oversubscription,
        worker_memory_bytes=settings.worker_memory_bytes,
        ray_overhead=_beside_workers(settings),
        idle_ray=_idle_ray(settings),
        prices=Prices(cpu_hour=settings.price_cpu_hour, gib_hour=settings.price_gib_hour),
    )


def _beside_workers(settings: Settings) -> Reserved:
    """What a Ray run has on a cluster beside its workers: the head, and the pod that submits."""
    if settings.cluster is None:
        return Reserved()
    cluster = settings.cluster
    return Reserved(
        cpus=cluster.head_cpus + SUBMITTER.cpus, memory_bytes=cluster.head_memory.bytes + SUBMITTER.memory_bytes
    )


def _idle_ray(settings: Settings) -> Reserved:
    """What the RayCluster holds while other arms run."""
    if settings.cluster is None:
        return Reserved()
    recipe, cluster = settings.recipe, settings.cluster
    return Reserved(
        cpus=cluster.head_cpus + recipe.workers * recipe.worker_cpus,
        memory_bytes=cluster.head_memory.bytes + recipe.workers * settings.worker_memory_bytes,
    )
