"""A comparison as one HTML file: works from file://, loads nothing, links nowhere, light and dark. It measures nothing.

What needs a run's histories is drawn from the run's file where it still lies unchanged; the page names what is missing.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from cli.setup.project import SWEEP_PREFIX
from compare import measures, projection
from compare.entries import Measure
from compare.in_short import ALTERNATIVES, RATIOS, in_short, machine_in_short
from compare.intervals import rule
from compare.schema import Comparison, Estimate
from compare.words import compared
from report import curve, gpus, ratios, search_page, spot, step_parts, words
from report.figures import figure, is_shown
from report.links import RunFile, run_files
from report.pictures import first, pictures
from report.plots import ShownRun
from report.stored import newest_start
from training.contract.arms import ARMS
from training.contract.codec import ResultError
from training.contract.result import read
from training.contract.workload import named, recipe_of
from training.machine.command_line import rwi

CHECKS = {
    "replicasAsAsked": "The framework saw as many replicas as were asked for",
    "threadsAsAsked": "Every worker computed with as many threads as it has CPUs, as counted in its process",
    "cpusDisjoint": "No two workers were bound to one CPU",
    "cpusAsAsked": "Every arm computed on its CPUs, with room for each worker, and on the same in every repeat",
    "gpusAsAsked": "Every worker computed on a GPU of its own, of one model, with one backend in all arms",
    "sameWork": "Every arm made the same steps on the same data",
    "sameFailedTrials": "The same trials failed in every arm, or none did",
    "hashesEqual": "Code, locked dependencies and data are the same in every run",
    "versionsEqual": "Every worker had the same versions installed",
    "machineQuiet": "No other program kept the CPUs from a run",
    "platformsEqual": "Every worker had the same system, machine and C library",
    "environmentEqual": "The same variables steered the framework in every worker",
    "shardsCoverDataSet": "The workers' shards are disjoint and cover the data set",
    "rowsDisjoint": "No two workers trained on the same rows, but for what makes their numbers even",
    "stepsOfRanksEqual": "Every worker of a run made as many steps",
    "dataRowsEqual": "The training saw as many rows through Ray Data as through the loader",
    "weightsEqual": "All workers ended with the same weights",
}


def render(comparison: Comparison, stack: str, project: Path) -> str:
    """Return the page of a comparison, as HTML."""
    files = run_files(comparison, project)
    runs = shown_runs(files, project)
    detail = comparison.verdict.removeprefix(f"{comparison.answer}: ")
    sentences = {**CHECKS, **named(comparison.workload).checks}
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            comparison=comparison,
            stack=stack,
            measured_at=_date(comparison),
            sentence=in_short(comparison),
            machine=machine_in_short(comparison),
            first=first(comparison),
            deciding=_deciding_rows(comparison),
            trained=named(comparison.workload).words(comparison.recipe),
            arms=_ray_first(comparison),
            detail=detail[:1].upper() + detail[1:],
            measures=[
                _measure_row(comparison, each)
                for each in measures.measures_of(comparison.workload, comparison.unit)
                if each.on_page and is_shown(comparison, each)
            ],
            gpus=gpus.table(comparison, runs, _ray_first(comparison)),
            accuracy_reached=_accuracy_reached(comparison),
            ratios=ratios.rows(comparison),
            footnotes=ratios.footnotes(comparison),
            level=_level(comparison),
            details=words.details(comparison),
            doubt=words.doubt(comparison),
            projected=projection.sentences,
            curve=curve.rows(comparison),
            curve_headings=curve.HEADINGS,
            curve_summary=curve.summary(comparison),
            spot=spot.rows(comparison),
            spot_headings=spot.HEADINGS,
            spot_notes=spot.notes(comparison),
            checks=[(sentences.get(name, name), name, passed) for name, passed in comparison.checks.items()],
            pictures=pictures(comparison, runs),
            distribution=words.distribution(comparison),
            search=_search(comparison, runs),
            missing=[file for file in files if file.state != "present"],
            provenance=_provenance(comparison),
            commands=[_command(comparison, stack, target) for target in ("destroy", "up")],
            waits=step_parts.long_waits(comparison),
            why=_command(comparison, stack, "why"),
        )
    )


def _level(comparison: Comparison) -> str:
    """Return the confidence level of each interval on the page: `95 %`."""
    alternatives = [arm for arm in comparison.arms.values() if arm.role in ALTERNATIVES]
    decided = rule(is_auto=bool(comparison.auto), alternatives=len(alternatives))
    return f"{100 * decided.confidence:.4g} %"


def templates() -> Environment:
    """Return the templates of the pages, which lie beside this file. Values are escaped. The filter `code` marks up
    text in backticks."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = lambda text: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704
    return environment


def shown_runs(files: Sequence[RunFile], project: Path) -> list[ShownRun]:
    """Return the runs whose result files can still be read. A file that was damaged since counts as missing."""
    runs = []
    for file in files:
        if file.state == "present":
            try:
                runs.append(ShownRun(file.link.name, file.link.repeat, read(project / file.link.path)))
            except ResultError:
                continue
    return runs


def deciding(comparison: Comparison) -> tuple[str, ...]:
    """Return the names of the ratios from which the answer follows: of Ray's whole time to each alternative's, or of
    the times to the target."""
    known = {each.name for each in measures.ratios_of(comparison.workload, comparison.gpus)}
    ratios = RATIOS["to target" if comparison.claim == "same result" else "clocks"].values()
    return tuple(name for name in ratios if name in known)


def _deciding_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each ratio from which the answer follows. For a script that nothing distributes, return a row
    for each alternative, with how many times as fast Ray could be at most."""
    if comparison.bound is None:
        return [_deciding_row(comparison, name) for name in deciding(comparison)]
    at_most = comparison.bound.at_most.items()
    return [
        _row_of({"name": name, "what": f"Against {comparison.arms[name].title}, Ray"}, ratio, " at least", " at most")
        for name, ratio in at_most
    ]


def _deciding_row(comparison: Comparison, name: str) -> dict[str, Any]:
    """Return a ratio's row in the words of the page's first sentence: how many times as long, or as fast, Ray is."""
    each, value = measures.ratio(name), comparison.ratios.get(name)
    alternative = ARMS[each.above].words(recipe_of(comparison.recipe))
    end = "the target" if comparison.claim == "same result" else "result"
    what = f"from start to {end}, against {alternative}, Ray"
    if (
        comparison.claim != "same result" and not comparison.has_equal_epochs
    ):  # the sentence has the times of all epochs
        what = f"over {comparison.passes}, {what}"
    row = {"name": name, "what": what[:1].upper() + what[1:]}
    if value is None:
        return row | {"times": "", "why": comparison.reasons.get(name, "")}
    why = ratios.why_open(value, comparison) if value.decision == ratios.UNDECIDED else ""
    return _row_of(row, value) | {"why": why}


def _row_of(row: dict[str, Any], value: Estimate, longer: str = "", faster: str = "") -> dict[str, Any]:
    """Return the row with the ratio in words. `longer` or `faster` is added after the verb."""
    text = compared(value)
    certain = f"{text.low} to {text.high} with 95 % confidence" if text.low else "one repeat: how certain is not known"
    return row | {
        "what": f"{row['what']} {text.verb}{longer if text.is_longer else faster}",
        "times": text.times,
        "compared": text.unit,
        "range": certain,
        "decision": value.decision,
        "why": "",
    }


def _ray_first(comparison: Comparison) -> list[str]:
    """Return the arms with Ray first. The first column stands beside the names of the rows, where a phone shows it."""
    return sorted(comparison.shown_arms(), key=lambda name: comparison.arms[name].role != "subject")


def _date(comparison: Comparison) -> str:
    measured_at = newest_start(comparison)
    return f"{measured_at.day} {measured_at:%B %Y, %H:%M} UTC" if measured_at else ""


def _accuracy_reached(comparison: Comparison) -> str:
    """Return the accuracy to which time to accuracy is measured, which every run reached; "" if unknown."""
    spreads = [summary.measures.get("bestValidationAccuracy") for summary in comparison.arms.values()]
    lowest = [value.low for value in spreads if value]
    return f"{100 * min(lowest):.1f} %" if lowest else ""


def _measure_row(comparison: Comparison, each: Measure) -> dict[str, Any]:
    values = {name: comparison.arms[name].measures.get(each.name) for name in comparison.shown_arms()}
    cells = {name: figure(value, each) if value else None for name, value in values.items()}
    return {"title": each.title, "unit": each.unit, "cells": cells}


def _search(comparison: Comparison, runs: Sequence[ShownRun]) -> dict[str, Any] | None:
    """Return what the section on a search shows beside its pictures; None if nothing was searched."""
    if comparison.search is None:
        return None
    of_first = search_page.runs_of(runs)
    return {
        "found": words.search(comparison),
        "trials": search_page.table(of_first),
        "savings": search_page.savings(comparison, of_first),
        "note": search_page.note(),
        "metric": comparison.recipe.get("metric", "metric"),
    }


def _provenance(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the host, versions and hashes of the measurement, as pairs of a label and a text."""
    if not comparison.arms:
        return []
    provenance = comparison.arms[comparison.shown_arms()[-1]].provenance
    memory = f"{provenance.memory_bytes / 2**30:.1f} GiB memory"
    host = f"{provenance.cpu_model}, {provenance.cpus_allowed} CPUs allowed, {memory}, {provenance.platform}"
    hashes = {
        "dependenciesHash": provenance.dependencies_hash,
        "datasetHash": provenance.dataset_hash,
        "codeHash": provenance.code_hash,
    }
    versions = ", ".join(f"{name} {version}" for name, version in sorted(provenance.versions.items()))
    return [("Host", host), ("Versions", versions), *((name, text[:12]) for name, text in hashes.items() if text)]


def _command(comparison: Comparison, stack: str, target: str) -> str:
    """Return a command with the measurement's settings. Without `destroy` before it, `up` keeps the stack's runs."""
    return rwi(target, stack.removeprefix(SWEEP_PREFIX), comparison.settings)
