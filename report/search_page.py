"""The part of a page that a search has: its trials, and what stopping would have saved. From the runs' files; pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from compare.schema import Comparison
from compare.search import shown_length
from report.figures import MISSING
from report.plots import ShownRun
from report.replay import ORDERS, Curve, Middle, replays
from training.contract.recipe import canonical
from training.contract.workload import named, recipe_of
from training.workloads.search.detail import SearchDetail, Trial
from training.workloads.search.summary import POINTS

MOST_ROWS = 200
LEAST_CURVES = 2
"""With fewer trials than this there is no order of trials to replay."""


class Cell(NamedTuple):
    """The outcome of one trial in one arm, as texts."""

    metric: str
    how: str
    """How the trial went: `27 epochs, 3.1 s`, how it ended if not finished, and whose checkpoints it took."""


@dataclass(frozen=True)
class Trials:
    """The trials of the first repeat, as a table."""

    repeat: int
    names: list[str]
    """Names of the search space."""
    arms: list[str]
    rows: list[tuple[int, list[str], list[Cell | None]]]
    """For each trial its number, its configuration, and its outcome by arm; None if the arm had no such trial."""
    left_out: int
    """How many trials are left out, because the table has no room for them."""


@dataclass(frozen=True)
class Savings:
    """What each rule for stopping would have saved, as texts, or why the rules were not replayed."""

    rows: list[list[str]]
    arm: str
    why: str = ""


def runs_of(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Return the searches of the first repeat for which a result file was found."""
    searches = [run for run in runs if isinstance(run.result.detail, SearchDetail)]
    first = min((run.repeat for run in searches), default=0)
    return [run for run in searches if run.repeat == first]


def trials_of(run: ShownRun) -> list[Trial]:
    """Return the trials of a search; empty if the run's file has none."""
    detail = run.result.detail
    return detail.trials if isinstance(detail, SearchDetail) else []


def table(runs: Sequence[ShownRun]) -> Trials | None:
    """Return the table of the trials of these runs of one repeat: a row for each number and configuration."""
    if not runs:
        return None
    arms = [run.result.arm for run in runs]
    cells: dict[tuple[int, str], dict[str, Cell]] = {}
    for run in runs:
        for trial in trials_of(run):
            cells.setdefault((trial.number, canonical(trial.config)), {})[run.result.arm] = _cell(trial)
    names = sorted({name for run in runs for trial in trials_of(run) for name in trial.config})
    in_order = sorted(cells.items(), key=lambda item: item[0][0])  # of one number in the order of the arms
    rows = [
        (number, [_value(json.loads(config), name) for name in names], [of_arms.get(arm) for arm in arms])
        for (number, config), of_arms in in_order
    ]
    return Trials(runs[0].repeat, names, arms, rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS))


def _value(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name, MISSING)
    return value if isinstance(value, str) else f"{value:.6g}"


def _cell(trial: Trial) -> Cell:
    parts = [] if trial.epochs is None else [f"{trial.epochs} epoch{'s' if trial.epochs != 1 else ''}"]
    parts.append(shown_length(trial.seconds))
    if trial.state == "failed":
        parts.append(f"failed: {trial.why}" if trial.why else "failed")
    elif trial.state != "finished":
        parts.append(trial.state)
    parts += [
        f"took over trial {segment.origin[0]} before epoch {segment.until - (segment.epochs or 0) + 1}"
        for segment in trial.segments
        if segment.origin and segment.origin[0] != trial.number
    ]
    return Cell(MISSING if trial.metric is None else f"{trial.metric:.4g}", ", ".join(parts))


def savings(comparison: Comparison, runs: Sequence[ShownRun]) -> Savings | None:
    """Return what stopping would have saved in the first of these runs of one repeat; None if trials were stopped."""
    if not runs or any(trial.state == "stopped" or trial.segments for run in runs for trial in trials_of(run)):
        return None
    run, recipe = runs[0], comparison.recipe
    if not_all := run.result.reasons.get(POINTS):
        return Savings([], run.result.arm, not_all)
    curves = _curves(trials_of(run), is_higher_better=better(comparison) == "higher")
    grace, reports = int(recipe.get("searchGrace", 1)), max((len(curve.values) for curve in curves), default=0)
    if len(curves) < LEAST_CURVES or reports <= grace:
        return Savings([], run.result.arm, "no trial reported its metric often enough to be stopped")
    replayed = replays(curves, int(recipe["workers"]), grace, int(recipe.get("searchReduction", 3)))
    rows = [
        [each.rule, _middle(each.epochs), _middle(each.seconds), f"{100 * each.finds_best:.0f} %"] for each in replayed
    ]
    return Savings(rows, run.result.arm)


def _curves(trials: Sequence[Trial], *, is_higher_better: bool) -> list[Curve]:
    sign = 1 if is_higher_better else -1
    return [
        Curve([seconds for seconds, _ in trial.points], [sign * value for _, value in trial.points], trial.seconds)
        for trial in trials
        if trial.state == "finished" and trial.points
    ]


def better(comparison: Comparison) -> str:
    """Return whether `higher` or `lower` values of the metric are better."""
    target = named(comparison.workload).target(recipe_of(comparison.recipe))
    return target.better if target else "higher"


def _middle(value: Middle) -> str:
    return f"{value.median:,.4g} ({value.low:,.4g} to {value.high:,.4g})"


def note() -> str:
    """Return what the replay is, and what it is not."""
    return (
        f"the curves that were recorded, in {ORDERS} orders of the trials, without anybody's overhead; the median, and "
        "5 to 95 % of the orders. Both rules are called asynchronous successive halving, and are not one rule."
    )


def space(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """Return the ranges of the search space by name, as the setting has them."""
    space: dict[str, dict[str, Any]] = json.loads(comparison.recipe.get("searchSpace") or "{}")
    return space
