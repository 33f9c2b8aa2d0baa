"""A sweep as one HTML file, by the rules of `report.html`: loads nothing, links nowhere. It computes nothing."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from cli.setup.project import SWEEP_PREFIX
from compare import measures
from report import curve
from report.figures import figure
from report.html import templates
from report.pictures import Panel, drawn
from report.svg import ARM_COLOURS, ARM_MARKERS, MUTED, Picture, drawing, numbered
from report.sweep import MEASURES, TO_ACCURACY, Numbers, Row, Sweep, arms_of
from training.contract.arms import RAY
from training.machine.command_line import assignment, rwi


def render(sweep: Sweep, shown: Numbers) -> str:
    """Return the page of a sweep, as HTML."""
    return (
        templates()
        .get_template("sweep.html.j2")
        .render(
            sweep=sweep,
            rows=shown.rows,
            accuracy=f"{100 * shown.accuracy:.1f} %" if shown.accuracy is not None else "",
            arms=arms_of(shown),
            ratios=[each for each in measures.RATIOS if any(row.ratio(each.name) for row in shown.rows)],
            measures=MEASURES,
            figure=figure,
            curve_summary=curve.summary,
            pictures=_pictures(shown),
            command=_command(sweep),
        )
    )


def _pictures(shown: Numbers) -> list[Panel]:
    measured, arms = [row for row in shown.rows if row.comparison], arms_of(shown)
    if not measured:
        return []
    efficiency, cost = "efficiency (speedup / workers)", "reserved CPU hours a run"
    panels = [
        drawn("Speedup", lambda: _ratio(measured, "speedup", "speedup", float)),
        drawn("Efficiency", lambda: _ratio(measured, "efficiency", efficiency, lambda _: 1.0)),
        drawn("Cost", lambda: _by_arm(measured, "cost", cost, arms, "cpuHours")),
    ]
    if shown.accuracy is not None:
        label = f"training s to {100 * shown.accuracy:.1f} %"
        time = drawn("Time to accuracy", lambda: _by_arm(measured, "accuracy", label, arms, TO_ACCURACY))
        panels.insert(2, time)
    return panels


def _ratio(rows: Sequence[Row], name: str, label: str, ideal: Callable[[int], float]) -> str:
    """Return a picture of a ratio over workers: a line for each combination of the other settings, and the ideal."""
    with drawing(f"sweep-{name}", f"{label} by workers", ("workers", label), height=3.5) as picture:
        counts = sorted({row.workers for row in rows if row.workers})
        picture.axes.plot(counts, [ideal(n) for n in counts], ".", ls=(0, (1, 3)), color=MUTED, label="ideal")
        for (others, of_line), colour in numbered(list(_lines(rows).items())):
            _line(picture, of_line, name, others or RAY.name, colour if others else ARM_COLOURS[RAY.name])
        picture.axes.set_xticks(counts)
        picture.axes.set_ylim(bottom=0)
        picture.legend(columns=1 if len(_lines(rows)) > 1 else 2)
    return picture.markup


def _lines(rows: Sequence[Row]) -> dict[str, list[Row]]:
    lines: dict[str, list[Row]] = {}
    for row in rows:
        others = " ".join(f"{key}={value}" for key, value in row.point.settings.items() if key != "workers")
        lines.setdefault(others, []).append(row)
    return lines


def _line(picture: Picture, rows: Sequence[Row], name: str, label: str, colour: str) -> None:
    values = [(row.workers or 0, value) for row in rows if (value := row.ratio(name))]
    points = sorted(values, key=lambda point: point[0])
    medians = [value.median for _, value in points]
    bars = [[v.median - v.low for _, v in points], [v.high - v.median for _, v in points]]
    style: dict[str, Any] = {"fmt": "^-", "color": colour, "capsize": 3, "label": label}
    picture.axes.errorbar([workers for workers, _ in points], medians, yerr=bars, **style)


def _by_arm(rows: Sequence[Row], name: str, label: str, arms: Sequence[str], measure: str) -> str:
    """Return a picture of a measure of each arm, with the points of the sweep from top to bottom."""
    height = 1.6 + 0.34 * len(rows)
    with drawing(f"sweep-{name}", f"{label} by setting", (label, ""), height=height) as picture:
        for offset, arm in enumerate(arms):
            shift = 0.6 / len(arms) * (offset - (len(arms) - 1) / 2)
            places_and_values = [(place + shift, row.median(arm, measure)) for place, row in enumerate(rows)]
            present = [(x, y) for y, x in places_and_values if x is not None]
            style: dict[str, Any] = {"marker": ARM_MARKERS[arm], "color": ARM_COLOURS[arm], "label": arm}
            picture.axes.plot([x for x, _ in present], [y for _, y in present], linestyle="none", **style)
        picture.axes.set_yticks(range(len(rows)), [row.point.label.replace(" ", "\n") for row in rows])
        picture.axes.set_ylim(len(rows) - 0.5, -0.5)
        picture.axes.set_xlim(left=0)
        picture.legend()
    return picture.markup


def _command(sweep: Sweep) -> str:
    """Return the command that repeats the sweep. Values in a list and the lists themselves are quoted for the shell."""
    axes = (assignment(key, shlex.join(values)) for key, values in sweep.axes.items())
    return rwi(" ".join(["sweep", *axes]), sweep.stack.removeprefix(SWEEP_PREFIX), sweep.base)
