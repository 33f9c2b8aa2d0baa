"""The panels of a Grafana dashboard with their expressions, as they are with every variable at its default.

Grafana itself is not needed: it replaces variables in an expression, asks Prometheus, and draws.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BUILT_IN = {"__rate_interval": "30s", "__range": "5m", "__interval": "15s"}
"""Grafana's own variables, for readings every second and a window of minutes."""
EVERYTHING = ".+"


@dataclass(frozen=True)
class Query:
    """One expression of a panel."""

    ref: str
    expression: str
    legend: str
    """The text for a series, with labels as {{name}}."""


@dataclass(frozen=True)
class Panel:
    """A panel with its queries; `row` is the heading above it."""

    row: str
    title: str
    queries: tuple[Query, ...]


def panels_of(dashboard: str) -> list[Panel]:
    """Return the panels of a dashboard's JSON, in their order. Raises ValueError for a variable without a value."""
    document = json.loads(dashboard)
    values = dict(_values(document["templating"]["list"]))
    panels, row = [], ""
    for panel in _flat(document["panels"]):
        if panel["type"] == "row":
            row = panel["title"]
        else:
            queries = tuple(
                Query(target["refId"], _replaced(target["expr"], values), target.get("legendFormat") or "")
                for target in panel.get("targets") or ()
            )
            panels.append(Panel(row, panel["title"], queries))
    return panels


def _flat(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield panels; those of a collapsed row are inside of it."""
    for panel in panels:
        yield panel
        yield from panel.get("panels") or ()


def _values(variables: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for variable in variables:
        if variable["type"] == "interval":
            yield variable["name"], variable["query"].split(",")[0]
        elif variable["type"] != "datasource":
            yield variable["name"], variable.get("allValue") or EVERYTHING


def _replaced(expression: str, values: Mapping[str, str]) -> str:
    """Return an expression without variables, longest names first. Raises ValueError for one without a value."""
    for name, value in sorted({**values, **BUILT_IN}.items(), key=lambda pair: -len(pair[0])):
        expression = expression.replace(f"${{{name}}}", value).replace(f"${name}", value)
    if left := re.search(r"\$\{?\w+", expression):
        raise ValueError(f"{left.group()} has no value, in {expression}")
    return expression
