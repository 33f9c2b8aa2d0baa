"""The pictures of a page, and why one of them could not be drawn. The drawing itself: `report.plots`.

A number that no picture can show costs that picture and nothing else: its reason stands in its place.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from compare.schema import ArmSummary, Comparison
from report import clock_plots, curve, plots, search_page, spot, step_parts
from report.clocks import clocks, parts, reading
from report.plots import ShownRun
from training.workloads.cnn.detail import CnnDetail

PHASES = {
    "process": "start of the process",
    "provenance": "reading versions and hashes",
    "launch": "start of the other processes",
    "rayImport": "import of Ray Train, with its framework",
    "rayInit": "start of Ray",
    "rayWorkers": "start of Ray's workers, with their imports",
    "tensorflow": "import of TensorFlow",
    "collectives": "connecting the workers",
    "data": "loading the data",
    "model": "building the model",
    "tracing": "tracing the first step",
}
"""Words for the parts of a start-up, in the order of time. Other parts follow, with their own names.

Ray Train imports TensorFlow with its trainer's module, in the driver and in each worker before it calls the training's
function there. So with Ray the part `tensorflow` is the rest of that import."""

SHOWN_SHARE = 0.02
"""Parts of a start-up that in no arm are longer than this share of the longest start-up are added up into one part."""

_PAGE = Path(__file__).with_name("page.html.j2")
_THEME = re.compile(r":root \{.*?(?=@media print)", re.DOTALL)
"""Finds the colours of a page, light and dark, in the page's template."""


@dataclass(frozen=True)
class Panel:
    """A picture with its title, or the reason why there is no picture."""

    title: str
    svg: Markup | None
    problem: str = ""
    note: str = ""
    """What the reader can see in the picture."""


def drawn(title: str, draw: Callable[[], str], note: str = "") -> Panel:
    """Return a panel with the picture that `draw` returns as SVG, or with the error of `draw` instead."""
    try:
        return Panel(title, Markup(draw()), note=note)  # noqa: S704 - drawn here, with what is shown escaped
    except Exception as error:  # noqa: BLE001 - whatever a drawing fails of, the result is worth more than it
        return Panel(title, None, f"{type(error).__name__}: {error}")


def as_file(panel: Panel) -> str:
    """Return a picture as an SVG file's text, for light and dark themes. Raises ValueError if it was not drawn."""
    if panel.svg is None:
        raise ValueError(panel.problem)
    theme = _THEME.search(_PAGE.read_text(encoding="utf-8"))
    assert theme  # noqa: S101 - the page is this project's own
    style = f"<style>{theme[0]}text {{ font-family: system-ui, sans-serif; }}</style>"
    opening = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    return re.sub(r">", f">{style}", str(panel.svg).replace("<svg ", opening, 1), count=1) + "\n"


def pictures(comparison: Comparison, runs: Sequence[ShownRun]) -> dict[str, list[Panel]]:
    """Return the pictures, by section of the page. A section without numbers is left out."""
    sections = {"time": _of_time(comparison, runs)}
    if runs and isinstance(runs[0].result.detail, CnnDetail):
        sections |= {"learning": _of_learning(runs), "classes": _of_classes(comparison, runs)}
    metric = str(comparison.recipe.get("metric", ""))
    if comparison.search:
        sections["search"] = _of_search(comparison, runs, metric)
    elif any(run.result.reported.get(metric) for run in runs):
        sections["metric"] = [drawn(f"{metric} over seconds", lambda: plots.metric(runs, metric))]
    if sampled := plots.sampled_runs(runs):
        repeat = f"repeat {sampled[0].repeat}"
        sections["machine"] = [
            drawn(f"CPUs in use, {repeat}", lambda: plots.cpu_over_time(sampled)),
            drawn(f"Memory, {repeat}", lambda: plots.memory_over_time(sampled)),
        ]
    if projection := comparison.projection:
        points = curve.measured_points(comparison)
        sections["projection"] = [drawn("Projection", lambda: plots.scaling(projection, points))]
    if on_spot := spot.curves(comparison):
        title, note = "Cost on spot capacity over interruptions", "Marked: where spot stops paying."
        sections["spot"] = [drawn(title, lambda: clock_plots.on_spot(on_spot), note)]
    return sections


def first(comparison: Comparison) -> list[Panel]:
    """Return the pictures that show the answer: whole times over epochs, if known, and where the time went."""
    if not comparison.arms:
        return []
    panels = []
    if shown := clocks(comparison):
        note = reading(comparison, shown)
        panels.append(drawn(f"End to end over {shown.passed}s", lambda: clock_plots.over_epochs(shown), note))
    titles = {name: arm.title for name, arm in comparison.arms.items()}
    of_all = comparison.passes if comparison.has_equal_epochs else ""
    title = f"Where the time of {of_all or 'a run'} went"
    return [*panels, drawn(title, lambda: clock_plots.by_part(parts(comparison), titles))]


def _of_time(comparison: Comparison, runs: Sequence[ShownRun]) -> list[Panel]:
    panels = []
    if any(arm.startup_phases for arm in comparison.arms.values()):
        panels.append(drawn("Start-up by part", lambda: plots.phases(_startup_parts(comparison))))
    if of_steps := step_parts.by_arm(comparison):
        panels.append(drawn("Where a step's time goes", lambda: plots.step_parts(of_steps)))
    if any(run.result.steps.trace for run in runs):
        panels.append(drawn("Step times", lambda: plots.step_times(runs)))
    return panels


def _of_search(comparison: Comparison, runs: Sequence[ShownRun], metric: str) -> list[Panel]:
    panels = []
    if any(run.result.reported.get(metric) for run in runs):
        title = f"Best {metric} so far"
        panels.append(drawn(title, lambda: plots.best_so_far(runs, metric), "Every run is a line, to its end."))
    of_first = search_page.runs_of(runs)
    trials = [trial for trial in search_page.trials_of(of_first[0]) if trial.metric is not None] if of_first else []
    if trials:
        space, better = search_page.space(comparison), search_page.better(comparison)
        title = f"Trials of {of_first[0].name}"
        note = f"A line is a trial: the darker, the better {metric}; the thickest is the best."
        panels.append(drawn(title, lambda: plots.parallel(trials, space, metric, better), note))
    return panels


def _of_learning(runs: Sequence[ShownRun]) -> list[Panel]:
    return [
        drawn("Validation accuracy over epochs", lambda: _accuracy(plots.over_epochs, runs, "accuracy-epochs")),
        drawn("Validation accuracy over seconds", lambda: _accuracy(plots.over_seconds, runs, "accuracy-seconds")),
        drawn("Training loss over epochs", lambda: _loss(plots.over_epochs, runs, "loss-epochs")),
        drawn("Training loss over seconds", lambda: _loss(plots.over_seconds, runs, "loss-seconds")),
        drawn(
            "Learning rate",
            lambda: plots.over_epochs(runs, "rate", "learning rate", lambda epoch: epoch.learning_rate),
        ),
    ]


def _of_classes(comparison: Comparison, runs: Sequence[ShownRun]) -> list[Panel]:
    arms = [arm for arm in comparison.shown_arms() if any(run.result.arm == arm for run in runs)]
    confusions = [drawn(f"Confusion matrix, {arm}", partial(plots.confusion, arm, runs)) for arm in arms]
    return [drawn("Accuracy by class", lambda: plots.class_accuracy(runs)), *confusions]


def _accuracy(draw: Any, runs: Sequence[ShownRun], name: str) -> str:
    return str(draw(runs, name, "validation accuracy, %", lambda epoch: 100 * epoch.validation_accuracy))


def _loss(draw: Any, runs: Sequence[ShownRun], name: str) -> str:
    return str(draw(runs, name, "training loss", lambda epoch: epoch.loss))


def _startup_parts(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Return the median seconds of each arm's start-up by part in words. Parts short in every arm are added up."""
    arms = {name: comparison.arms[name] for name in comparison.shown_arms()}
    longest = max(arm.median("startupSeconds") or 0.0 for arm in arms.values())
    names = {name for arm in arms.values() for name in arm.startup_phases}
    order = [*PHASES, *sorted(names - PHASES.keys())]
    shown = [
        name
        for name in order
        if any(arm.startup_phases.get(name, 0.0) > SHOWN_SHARE * longest for arm in arms.values())
    ]
    return {name: _parts(arm, shown) for name, arm in arms.items()}


def _parts(arm: ArmSummary, shown: Sequence[str]) -> dict[str, float]:
    parts = {PHASES.get(name, name): arm.startup_phases.get(name, 0.0) for name in shown}
    return parts | {"everything else": max(0.0, (arm.median("startupSeconds") or 0.0) - sum(parts.values()))}
