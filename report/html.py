"""A comparison as one HTML file: works from file://, loads nothing, links nowhere, light and dark. It measures nothing.

What needs a run's histories is drawn from the run's file where it still lies unchanged; the page names what is missing.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from report import plots
from report.links import RunFile, run_files
from report.plots import ShownRun
from report.stored import SWEEP_PREFIX
from training.comparison import Comparison
from training.comparison_schema import ArmSummary, ComparisonData, Spread
from training.config import ARMS
from training.result import ResultError, read

CHECKS = {
    "replicasAsAsked": "TensorFlow saw as many replicas as were asked for",
    "threadsAsAsked": "Every worker computed with as many threads as it has CPUs, as counted in its process",
    "cpusDisjoint": "No two workers were bound to one CPU",
    "sameWork": "Every arm made the same steps on the same images",
    "hashesEqual": "Code, locked dependencies and data are the same in every run",
    "versionsEqual": "Every worker had the same versions installed",
    "platformsEqual": "Every worker had the same system, machine and C library",
    "environmentEqual": "The same variables steered the framework in every worker",
    "shardsCoverDataSet": "The workers' shards are disjoint and cover the data set",
    "weightsEqual": "All workers ended with the same weights",
}
RATIOS = (
    ("speedup", "Speedup", "×", "baseline / ray, steady-state seconds"),
    ("endToEndSpeedup", "End-to-end speedup", "×", "baseline / ray, from process start to result"),
    ("efficiency", "Efficiency", "", "speedup / workers"),
    ("rayOverhead", "Ray overhead", "×", "ray / native, steady-state seconds; 1.00: none"),
    ("accuracyGap", "Accuracy gap", " points", "baseline - ray test accuracy; positive: Ray is worse"),
)

PHASES = ("process", "launch", "ray", "tensorflow", "collectives", "data", "model", "tracing")
"""Start-up phases in the order in which they happen; others follow."""

SHOWN_SHARE = 0.01
"""Start-up phases that are nowhere longer than this share of the longest run are summed up as the rest."""


class Measure(NamedTuple):
    """A row of the arms' table: values are multiplied by `factor` to be shown in `unit`."""

    title: str
    key: str
    unit: str
    digits: int
    factor: float = 1


MEASURES = (
    Measure("Steady-state training", "trainSeconds", "s", 2),
    Measure("Images", "imagesPerSecond", "/s", 0),
    Measure("Start-up", "startupSeconds", "s", 1),
    Measure("Evaluation", "evaluationSeconds", "s", 2),
    Measure("End to end", "wallSeconds", "s", 1),
    Measure("Time to accuracy", "timeToAccuracySeconds", "s", 2),
    Measure("Test accuracy", "testAccuracy", "%", 2, 100),
    Measure("Step, median", "stepSecondsP50", "ms", 1, 1000),
    Measure("Step, 95th percentile", "stepSecondsP95", "ms", 1, 1000),
    Measure("Peak memory of a worker", "peakMemoryBytes", "MiB", 0, 1 / 2**20),
    Measure("CPUs in use of a worker", "meanCpus", "", 2),
    Measure("Held back by the quota", "throttledSeconds", "s", 1),
)


def render(comparison: Comparison, stack: str, project: Path) -> str:
    """The whole page."""
    data = comparison.data
    files = run_files(comparison, project)
    runs = shown_runs(files, project)
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            data=data,
            stack=stack,
            arms=[arm for arm in ARMS if _arm(data, arm)],
            kind=data["verdict"].partition(":")[0],
            detail=data["verdict"].partition(": ")[2],
            measures=[_measure_row(data, measure) for measure in MEASURES],
            accuracy_reached=_accuracy_reached(data),
            ratios=[_ratio_row(data, *ratio) for ratio in RATIOS],
            checks=[(CHECKS.get(name, name), name, passed) for name, passed in data["checks"].items()],
            pictures=_pictures(data, runs),
            missing=[file for file in files if file.state != "present"],
            provenance=_provenance(data),
            commands=_commands(data, stack),
        )
    )


def templates() -> Environment:
    """The pages, beside this file; what is put into them is escaped."""
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def shown_runs(files: Sequence[RunFile], project: Path) -> list[ShownRun]:
    """The runs that can still be read; one damaged since it was compared is as good as missing."""
    runs = []
    for file in files:
        if file.state == "present":
            try:
                runs.append(ShownRun(file.link["name"], file.link["repeat"], read(project / file.link["path"])))
            except ResultError:
                continue
    return runs


def _arm(data: ComparisonData, arm: str) -> ArmSummary | None:
    return cast("ArmSummary | None", data[arm])  # type: ignore[literal-required]


def _accuracy_reached(data: ComparisonData) -> str:
    """The validation accuracy that time to accuracy is measured to: what every run reached."""
    spreads = [summary["spread"].get("bestValidationAccuracy") for arm in ARMS if (summary := _arm(data, arm))]
    lowest = [value["low"] for value in spreads if value]
    return f"{100 * min(lowest):.1f} %" if lowest else ""


def _measure_row(data: ComparisonData, measure: Measure) -> dict[str, Any]:
    cells = {}
    for arm in ARMS:
        summary = _arm(data, arm)
        if summary:
            value = summary["spread"].get(measure.key)
            cells[arm] = shown_spread(value, measure.digits, measure.factor) if value else None
    return {"title": measure.title, "unit": measure.unit, "cells": cells}


def _ratio_row(data: ComparisonData, name: str, title: str, unit: str, meaning: str) -> dict[str, Any]:
    value = cast("Spread | None", data[name])  # type: ignore[literal-required]
    shown = shown_spread(value, 2, 1) if value else None
    return {"name": name, "title": title, "unit": unit, "meaning": meaning, "value": shown}


def shown_spread(value: Spread, digits: int, scale: float) -> dict[str, str]:
    """Median and range as text."""
    median, low, high = (f"{value[end] * scale:,.{digits}f}" for end in ("median", "low", "high"))
    return {"median": median, "range": f"{low} – {high}" if value["n"] > 1 else "one repeat"}


def _pictures(data: ComparisonData, runs: Sequence[ShownRun]) -> dict[str, list[tuple[str, Markup]]]:
    """Title and SVG of each picture, by section; a section without its numbers is empty."""
    shown: dict[str, list[tuple[str, str]]] = {"time": []}
    if any(_arm(data, arm) for arm in ARMS):
        shown["time"].append(("Where the time goes", plots.time_bars(_time_parts(data))))
    if runs:
        shown |= {
            "learning": [
                ("Validation accuracy over epochs", _accuracy(plots.over_epochs, runs, "accuracy-epochs")),
                ("Validation accuracy over seconds", _accuracy(plots.over_seconds, runs, "accuracy-seconds")),
                ("Training loss over epochs", _loss(plots.over_epochs, runs, "loss-epochs")),
                ("Training loss over seconds", _loss(plots.over_seconds, runs, "loss-seconds")),
                ("Learning rate", plots.over_epochs(runs, "rate", "learning rate", lambda epoch: epoch.learning_rate)),
            ],
            "classes": [("Accuracy by class", plots.class_accuracy(runs)), *_confusions(data, runs)],
        }
    if any(worker.samples for run in runs for worker in run.result.workers):
        shown["machine"] = [
            ("CPUs in use, first repeat", plots.cpu_over_time(runs)),
            ("Memory, first repeat", plots.memory_over_time(runs)),
        ]
    if any(run.result.step_trace for run in runs):
        shown["time"].append(("Step times", plots.step_times(runs)))
    if data["projection"]:
        shown["projection"] = [("Projection", plots.scaling(data["projection"], data["speedup"]))]
    return {section: [(title, Markup(svg)) for title, svg in svgs] for section, svgs in shown.items()}  # noqa: S704 - drawn here


def _accuracy(draw: Any, runs: Sequence[ShownRun], name: str) -> str:
    return str(draw(runs, name, "validation accuracy, %", lambda epoch: 100 * epoch.validation_accuracy))


def _loss(draw: Any, runs: Sequence[ShownRun], name: str) -> str:
    return str(draw(runs, name, "training loss", lambda epoch: epoch.loss))


def _confusions(data: ComparisonData, runs: Sequence[ShownRun]) -> list[tuple[str, str]]:
    drawn = [arm for arm in ARMS if _arm(data, arm) and any(run.result.arm == arm for run in runs)]
    return [(f"Confusion matrix, {arm}", plots.confusion(arm, runs)) for arm in drawn]


def _time_parts(data: ComparisonData) -> dict[str, dict[str, float]]:
    """Medians of the parts of a run; what no clock covers is `other`, so that the bar is as long as the run."""
    summaries = {arm: summary for arm in ARMS if (summary := _arm(data, arm))}
    longest = max(summary["wallSeconds"] or 0.0 for summary in summaries.values())
    phases = {name for summary in summaries.values() for name in summary["startupPhases"]}
    shown = [
        name
        for name in sorted(phases, key=lambda name: (PHASES.index(name) if name in PHASES else len(PHASES), name))
        if any(summary["startupPhases"].get(name, 0.0) > SHOWN_SHARE * longest for summary in summaries.values())
    ]
    return {arm: _parts(summary, shown) for arm, summary in summaries.items()}


def _parts(summary: ArmSummary, phases: Sequence[str]) -> dict[str, float]:
    starting = {f"start-up: {name}": summary["startupPhases"].get(name, 0.0) for name in phases}
    rest = (summary["startupSeconds"] or 0.0) - sum(starting.values())
    known = starting | {
        "start-up: rest": max(0.0, rest),
        "warm-up": summary["warmupSeconds"] or 0.0,
        "training": summary["trainSeconds"] or 0.0,
        "evaluation": summary["evaluationSeconds"] or 0.0,
    }
    return known | {"other": max(0.0, (summary["wallSeconds"] or 0.0) - sum(known.values()))}


def _provenance(data: ComparisonData) -> list[tuple[str, str]]:
    """Host, versions and hashes of the measurement, as label and text."""
    first = next((summary for arm in reversed(ARMS) if (summary := _arm(data, arm))), None)
    if first is None:
        return []
    made = first["provenance"]
    memory = f"{made['memoryBytes'] / 2**30:.1f} GiB memory"
    host = f"{made['cpuModel']}, {made['cpusAllowed']} CPUs allowed, {memory}, {made['platform']}"
    hashes = [(key, made[key][:12]) for key in ("dependenciesHash", "datasetHash", "codeHash")]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(made["versions"].items()))
    return [("Host", host), ("Versions", versions), *hashes]


def _commands(data: ComparisonData, stack: str) -> list[str]:
    """What measures this again: the stack with every setting that was not its default, and what shows it."""
    values = " ".join(f"{key}={shlex.quote(text)}" for key, text in data["settings"].items())
    quoted = shlex.quote(values) if set(values) & set('"$`\\!') else f'"{values}"'
    words = [f"STACK={stack.removeprefix(SWEEP_PREFIX)}"]
    words += [f"SET={quoted}"] if values else []
    return [" ".join([*words, "make up"]), f"{words[0]} make outputs"]
