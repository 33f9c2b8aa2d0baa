"""The workers' curve as rows of texts, the same in the table and on the page. Pure."""

from compare.schema import Comparison, CurvePoint, Estimate
from report.figures import MISSING

HEADINGS = ("workers", "whole s", "CPU h", "speedup", "gain", "cost ratio")


def rows(comparison: Comparison) -> list[list[str]]:
    """Return a row of `HEADINGS` for each point of the curve: medians and 95 % intervals; empty without a curve."""
    return [_row(point) for point in comparison.workers_curve.points] if comparison.workers_curve else []


def measured_points(comparison: Comparison) -> dict[int, Estimate]:
    """Return Ray's measured speedup by number of workers: of the curve, or of the only number that was measured."""
    if comparison.workers_curve:
        return {point.workers: point.speedup for point in comparison.workers_curve.points if point.speedup}
    speedup = comparison.ratios.get("speedup")
    return {int(comparison.recipe["workers"]): speedup} if speedup else {}


def _row(point: CurvePoint) -> list[str]:
    return [
        str(point.workers),
        f"{point.wall_seconds.median:,.1f}",
        f"{point.cpu_hours.median:,.4f}",
        ratio(point.speedup),
        ratio(point.gain),
        ratio(point.cost_ratio),
    ]


def ratio(value: Estimate | None) -> str:
    """Return a ratio with its interval: `1.41 1.35–1.48`."""
    if value is None:
        return MISSING
    interval = f" {value.lower:.2f}–{value.upper:.2f}" if value.lower is not None and value.upper is not None else ""
    return f"{value.median:.2f}{interval}"


def summary(comparison: Comparison) -> str:
    """Return from which number of workers on more of them do not pay, and from which number on they cost more than they
    save, or why that is not known; "" without a curve."""
    curve, why = comparison.workers_curve, comparison.reasons
    if curve is None:
        return ""
    stops, dearer = curve.stops_paying_at, curve.costs_more_from
    parts = [
        f"stopsPayingAt {stops}" if stops is not None else f"stopsPayingAt: {why['stopsPayingAt']}",
        f"costsMoreFrom {dearer}" if dearer is not None else f"costsMoreFrom: {why['costsMoreFrom']}",
    ]
    return "; ".join(parts)
