"""Draws a dashboard's panels of what a Prometheus answers, for the picture of docs/metrics.md.

The dashboard is its JSON, as a ConfigMap of the stack has it. Panels without data are left out.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.metrics.panels import Panel, Query, panels_of
from tests.metrics.prometheus import Prometheus

COLUMNS, MOST_PANELS, MOST_SERIES = 3, 9, 6
WIDTH, HEIGHT = 4.2, 2.4
"""Inches of a panel."""


def draw(prometheus: Prometheus, dashboard: str, out: Path, seconds: float, titles: Sequence[str] = ()) -> list[str]:
    """Draw the first panels that have data, or those of `titles`; return the titles of what is drawn. Raises
    QueryError."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    answers = [(panel, _lines(prometheus, panel, seconds)) for panel in panels_of(dashboard)]
    chosen = [(panel, lines) for panel, lines in answers if lines and (not titles or panel.title in titles)]
    chosen = chosen[:MOST_PANELS]
    rows = -(-len(chosen) // COLUMNS)
    figure = Figure(figsize=(WIDTH * COLUMNS, HEIGHT * max(rows, 1)), layout="constrained")
    for index, (panel, lines) in enumerate(chosen):
        axes = figure.add_subplot(rows, COLUMNS, index + 1)
        axes.set_title(panel.title, fontsize=8)
        axes.tick_params(labelsize=6)
        for label, times, values in lines[:MOST_SERIES]:
            axes.plot(times, values, linewidth=1, label=label)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=5, loc="best", framealpha=0.5)
    figure.supxlabel("seconds", fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # letters as letters: as paths they are most of the file
        figure.savefig(out)
    return [panel.title for panel, _ in chosen]


def _lines(prometheus: Prometheus, panel: Panel, seconds: float) -> list[tuple[str, list[float], list[float]]]:
    """Return label, seconds since the first answer, and values of each series of a panel."""
    series = [
        (_label(query, series["metric"]), series["values"])
        for query in panel.queries
        for series in prometheus.series(query.expression, seconds, step=1)
    ]
    first = min((float(values[0][0]) for _, values in series), default=0.0)
    return [
        (label, [float(at) - first for at, _ in values], [float(value) for _, value in values])
        for label, values in series
    ]


def _label(query: Query, labels: dict[str, Any]) -> str:
    """Return the text for a series, as Grafana makes it of its labels."""
    text = re.sub(r"{{\s*(\w+)\s*}}", lambda match: str(labels.get(match[1], "")), query.legend) or str(labels)
    return re.sub(r"\S*/", "", text)  # a program by its name alone
