"""The pictures of a search: the best so far over time, and its trials over the names of the space. They only draw."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from report.plots import ShownRun, shown_names
from report.svg import ARM_COLOURS, ARM_LINES, HEAT, INK, MUTED, drawing
from training.workloads.search.detail import Trial

MOST_AXES = 8
"""Names of the space that are drawn: more could not be read."""
FAINTEST = 0.15
"""Of the worst trial's line."""
ROOM = 0.06
"""Room above and below what is drawn, as a share of an axis."""


def best_so_far(runs: Sequence[ShownRun], metric: str) -> str:
    """The best metric of the trials that have finished, over seconds since the start, every run a line."""
    label = f"best {metric} so far"
    with drawing("best-so-far", f"{label} over seconds", ("seconds since the start", label)) as picture:
        for run in runs:
            points, arm = run.result.reported.get(metric, []), run.result.arm
            if not points:
                continue
            seconds = [*(point.seconds for point in points), run.result.seconds.wall]
            values = [*(point.value for point in points), points[-1].value]
            style: dict[str, Any] = {"color": ARM_COLOURS[arm], "linestyle": ARM_LINES[arm], "label": arm}
            picture.axes.step(seconds, values, where="post", alpha=0.85, **style)
        picture.axes.set_xlim(left=0)
        picture.legend(columns=4)
    return picture.markup


def parallel(trials: Sequence[Trial], space: Mapping[str, Mapping[str, Any]], metric: str, better: str) -> str:
    """Each trial a line over the names of the space and the metric: the better, the darker; the best one apart.

    Args:
        trials: Those with a metric.
        space: The ranges by name, as the setting has them.
        metric: Name of the metric.
        better: Whether `higher` or `lower` values of it are better.
    """
    names = list(space)[:MOST_AXES]
    ranked = sorted(trials, key=lambda trial: trial.metric or 0.0, reverse=better == "lower")
    metrics = [trial.metric or 0.0 for trial in ranked]
    with drawing("parallel", f"{metric} of each trial by its configuration", ("", ""), height=3.4) as picture:
        axes = picture.axes
        for rank, trial in enumerate(ranked):
            heights = [height(trial.config[name], space[name]) for name in names]
            heights.append(_share(trial.metric or 0.0, min(metrics), max(metrics)))
            is_best = rank == len(ranked) - 1
            alpha = 1.0 if is_best else FAINTEST + (0.85 - FAINTEST) * rank / max(1, len(ranked) - 1)
            colour, width = (INK, 2.0) if is_best else (HEAT, 1.2)
            axes.plot(range(len(heights)), heights, color=colour, alpha=alpha, linewidth=width)
        for place, name in enumerate([*names, metric]):
            low, high = _ends(space[name]) if place < len(names) else (f"{min(metrics):.4g}", f"{max(metrics):.4g}")
            axes.axvline(place, color=MUTED, linewidth=0.8)
            axes.text(place, 1 + ROOM / 2, high, ha="center", va="bottom", fontsize=7.5)
            axes.text(place, -ROOM / 2, low, ha="center", va="top", fontsize=7.5)
        axes.set(ylim=(-2.5 * ROOM, 1 + 2.5 * ROOM), yticks=[])
        axes.set_xticks(range(len(names) + 1), shown_names([*names, metric]), rotation=30, ha="right")
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False)
    return picture.markup


def height(value: Any, kind: Mapping[str, Any]) -> float:
    """Where a value lies in its range, from 0 to 1; of a choice by the place of its value."""
    if "choice" in kind:
        return _share(list(kind["choice"]).index(value), 0, len(kind["choice"]) - 1)
    (scale, (low, high)), *_ = kind.items()
    if scale == "log":
        value, low, high = (math.log(each) for each in (value, low, high))
    return _share(value, low, high)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _ends(kind: Mapping[str, Any]) -> list[str]:
    """Return the ends of a range as texts."""
    values = next(iter(kind.values()))
    return shown_names([value if isinstance(value, str) else f"{value:g}" for value in (values[0], values[-1])])
