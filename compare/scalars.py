"""The stack's scalar outputs: one number or text each, for people and scripts. Pure."""

from compare import measures
from compare.schema import Comparison
from training.contract.arms import RAY

OF_RAY = ("cpuHours", "cost")
"""Measures of the Ray arm that are outputs; those of the others are in the comparison."""

OF_CURVE = ("stopsPayingAt", "costsMoreFrom")
"""Of the workers' curve, where one was measured."""


def names() -> list[str]:
    """The outputs' names, in the order in which they are shown."""
    return ["answer", "verdict", *(each.name for each in measures.RATIOS), "breakEvenEpochs", *OF_CURVE, *OF_RAY]


def scalars(comparison: Comparison) -> dict[str, float | str | None]:
    """Medians over the repeats and the answer, by output name; None for what was not measured."""
    ray = comparison.arms.get(RAY.name)
    ratios = comparison.ratios.items()
    values: dict[str, float | str | None] = dict.fromkeys(names())
    values |= {name: value.median if value else None for name, value in ratios if name in values}
    values |= {name: ray.median(name) if ray else None for name in OF_RAY}
    values |= {"answer": comparison.answer, "verdict": comparison.verdict}
    curve = comparison.workers_curve
    values |= {"stopsPayingAt": curve.stops_paying_at if curve else None}
    values |= {"costsMoreFrom": curve.costs_more_from if curve else None}
    return values | {"breakEvenEpochs": comparison.break_even_epochs}
