"""A comparison as aligned text, 80 columns wide: arms, ratios with their range, verdict, what qualifies it. Pure."""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, cast

from training.comparison_schema import NO_RAY_PODS, ONE_RAY_RUN, ArmSummary, ComparisonData, Link, Spread
from training.config import ARMS

WIDTH = 80
MISSING = "–"

_MEASURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("steady s", "trainSeconds", lambda value: f"{value:.2f}"),
    ("images/s", "imagesPerSecond", lambda value: f"{value:,.0f}"),
    ("start-up s", "startupSeconds", lambda value: f"{value:.1f}"),
    ("end-to-end s", "wallSeconds", lambda value: f"{value:.1f}"),
    ("accuracy", "testAccuracy", lambda value: f"{value:.4f}"),
    ("peak memory", "peakMemoryBytes", lambda value: f"{value / 2**20:,.0f} MiB"),
)
_RATIOS = (
    ("speedup", "×", "baseline / ray, steady state"),
    ("endToEndSpeedup", "×", "the same with everything in it"),
    ("efficiency", "", "speedup / workers"),
    ("rayOverhead", "×", "ray / native, steady state"),
    ("accuracyGap", "", "baseline - ray test accuracy, points"),
)


def render(data: ComparisonData) -> str:
    """The whole text, without a last newline."""
    parts = [_arms(data), _ratios(data), wrap(data["verdict"]), _checks(data), _projection(data), _remarks(data)]
    return "\n\n".join(part for part in parts if part)


def _arms(data: ComparisonData) -> str:
    rows = [["arm", *(title for title, _, _ in _MEASURES)]]
    for arm in ARMS:
        summary = cast("ArmSummary | None", data[arm])  # type: ignore[literal-required]
        rows.append([arm, *(_measure(summary, key, form) for _, key, form in _MEASURES)])
    return f"{_heading(data)}\n\n{aligned(rows)}"


def _heading(data: ComparisonData) -> str:
    recipe, repeats = data["recipe"], len(data["ray"]["runs"]) if data["ray"] else 0
    trained = f"{recipe['model']} on {recipe['dataset']}, {_count(recipe['epochs'], 'epoch')}, {recipe['precision']}"
    workers = f"{_count(recipe['workers'], 'worker')} of {recipe['workerCpus']:g} CPU"
    return f"{trained}\nglobal batch {recipe['globalBatchSize']}, {workers}; medians of {_count(repeats, 'repeat')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def _measure(summary: ArmSummary | None, key: str, form: Callable[[float], str]) -> str:
    value = cast("dict[str, Any]", summary)[key] if summary else None
    return MISSING if value is None else form(value)


def _ratios(data: ComparisonData) -> str:
    rows = [["", "median", "lowest", "highest", ""]]
    for name, unit, meaning in _RATIOS:
        value = cast("Spread | None", data[name])  # type: ignore[literal-required]
        numbers = [f"{value[end]:.2f}{unit}" for end in ("median", "low", "high")] if value else [MISSING] * 3
        rows.append([name, *numbers, meaning])
    pays = data["breakEvenEpochs"]
    rows.append(
        ["breakEvenEpochs", MISSING if pays is None else f"{pays:.1f}", "", "", "extra start-up / saved an epoch"]
    )
    return aligned(rows, text_columns=(0, 4))


def _checks(data: ComparisonData) -> str:
    failed = [name for name, passed in data["checks"].items() if passed is False]
    open_checks = [name for name, passed in data["checks"].items() if passed is None]
    passed = sum(value is True for value in data["checks"].values())
    text = f"Fairness: {passed} of {len(data['checks'])} checks passed"
    text += f"; failed: {', '.join(failed)}" if failed else ""
    return wrap(text + (f"; not verified: {', '.join(open_checks)}" if open_checks else "") + ".")


def _projection(data: ComparisonData) -> str:
    projection = data["projection"]
    if projection is None:
        return ""
    links = "; ".join(_best(link) for link in projection["links"])
    return wrap(f"Projection (up to {projection['maxWorkers']} workers; model, not measured): {links}.")


def _best(link: Link) -> str:
    return f"{link['name']} {link['bestSpeedup']:.1f}× with {link['bestWorkers']}"


def _remarks(data: ComparisonData) -> str:
    """Why something is missing; what qualifies the verdict stands in the verdict."""
    shown = {name: why for name, why in data["reasons"].items() if _is_news(name, data)}
    return "\n".join(wrap(f"{name}: {why}", indent="  ") for name, why in shown.items())


def _is_news(name: str, data: ComparisonData) -> bool:
    group, _, rest = name.partition(".")
    if name == "idleRayCpus":
        return data["reasons"][name] not in {NO_RAY_PODS, ONE_RAY_RUN}
    return group in {"checks", "repeats"} or (not rest and name in data) or rest in {key for _, key, _ in _MEASURES}


def aligned(rows: Sequence[Sequence[str]], text_columns: Sequence[int] = (0,)) -> str:
    """Columns two spaces apart: text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in text_columns else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def wrap(text: str, indent: str = "") -> str:
    """Lines of at most WIDTH columns; those after the first are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
