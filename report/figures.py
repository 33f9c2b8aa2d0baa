"""Formats the catalogue's numbers, once for tables, pages and comments. Pure."""

from typing import NamedTuple

from compare.entries import NOT_MEASURED, Measure, Ratio
from compare.schema import Comparison, Estimate, Spread

MISSING = "–"


class Figure(NamedTuple):
    """A value over the repeats as texts, in the unit of its entry but without the unit's name."""

    median: str
    range: str
    """Text such as `1.85 to 1.90`: a ratio's 95 % interval, or a measure's lowest and highest; "" with one repeat."""
    ends: str
    """Text of the lowest and highest repeat, for ratios and measures."""


def figure(value: Spread, entry: Measure | Ratio) -> Figure:
    """Return the value of a measure or a ratio as texts."""

    def number(value: float) -> str:
        return f"{value * entry.factor:,.{entry.digits}f}" if isinstance(entry, Measure) else _ratio(value)

    ends = f"{number(value.low)} to {number(value.high)}" if value.n > 1 else ""
    if not isinstance(value, Estimate):
        return Figure(number(value.median), ends, ends)
    interval = value.lower is not None and value.upper is not None
    return Figure(
        number(value.median), f"{number(value.lower or 0)} to {number(value.upper or 0)}" if interval else "", ends
    )


def _ratio(value: float) -> str:
    """Return a ratio with at least three digits: `0.56`, `12.3`, `1234`. Ratios that mean nothing become `2e6`."""
    size = abs(value)
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:.{digits}f}" if size < 9999.5 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def is_shown(comparison: Comparison, each: Measure) -> bool:
    """Return whether a measure is shown. A measure that only some places and settings have (prices, idle pods, a
    metric) is shown if it was measured. A measure that should be zero is shown if it was larger."""
    values = [value for arm in comparison.arms.values() if (value := arm.measures.get(each.name))]
    if each.least is not None:
        return any(value.high > each.least for value in values)
    return each.otherwise == NOT_MEASURED or bool(values)


def text(value: Spread | None, entry: Measure | Ratio, single: str = " (one repeat)") -> str:
    """Return a value as text: `1.53× (1.50 to 1.57)`, or `single` in place of a range; a dash if not measured."""
    if value is None:
        return MISSING
    shown = figure(value, entry)
    return f"{shown.median}{unit(entry)}" + (f" ({shown.range})" if shown.range else single)


def unit(entry: Measure | Ratio) -> str:
    """Return the unit of a measure or ratio as it follows a number."""
    return f" {entry.unit}" if isinstance(entry, Measure) and entry.unit else entry.unit
