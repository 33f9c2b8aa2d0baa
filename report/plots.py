"""The report's pictures, one function each: numbers of results in, inline SVG out. They draw; they decide nothing."""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from compare.schema import Estimate, Projection
from report.series import elapsed
from report.step_parts import WORDS, shown_parts
from report.svg import (
    ARM_COLOURS,
    ARM_LINES,
    ARM_MARKERS,
    CARD,
    HEAT,
    INK,
    MUTED,
    PARTS,
    SERIES,
    Picture,
    drawing,
)
from training.contract.arms import ARMS, RAY
from training.contract.result import TrainingResult, Worker
from training.workloads.cnn.detail import Epoch, detail_of
from training.workloads.search.detail import Trial

STEPS_SHOWN = 0.995
"""Share of the steps that the axis of the distribution shows: one very slow step would flatten the rest."""

LONGEST_NAME = 24
"""The most characters of a class name that are drawn. Longer names would leave no room for the drawing."""

LONGEST_TITLE = 22
"""The most characters in a line of the name beside a bar."""

_WORKER_LINES: tuple[Any, ...] = ("solid", "dashed", "dotted", "dashdot")
MOST_AXES = 8
"""The most names of the search space that are drawn, because more of them could not be read."""
FAINTEST = 0.15
"""Opacity of the line of the worst trial."""
ROOM = 0.06
"""Room above and below the drawing, as a share of the axis."""


@dataclass(frozen=True)
class ShownRun:
    """A run whose result file was found."""

    name: str
    repeat: int
    result: TrainingResult


@dataclass(frozen=True)
class Gain:
    """The seconds that a change saves in a step, with the interval; negative if the step takes longer."""

    what: str
    seconds: float
    lower: float
    upper: float
    how: str
    """How the gain is known: a key of `GAIN_MARKERS`."""


GAIN_MARKERS: Mapping[str, tuple[str, bool]] = {
    "certain": ("o", True),
    "not certain": ("o", False),
    "by the clock": ("D", True),
}
"""How a gain is drawn, by how it is known: the marker, and whether the marker is filled."""


def phases(parts: Mapping[str, Mapping[str, float]]) -> str:
    """Return a picture of the median seconds of each start-up part, which all arms have, with a bar for each arm."""
    arms, names = list(parts), list(next(iter(parts.values())))
    height = 1.0 + (0.12 * len(arms) + 0.1) * len(names)
    with drawing("start-up", "Start-up by part", ("seconds, median run", ""), height=height) as picture:
        width = 0.8 / len(arms)
        for place, arm in enumerate(arms):
            rows = [row + width * (place - (len(arms) - 1) / 2) for row in range(len(names))]
            values = [parts[arm][name] for name in names]
            picture.axes.barh(rows, values, height=width, color=ARM_COLOURS[arm], label=arm)
        picture.axes.set_yticks(range(len(names)), [textwrap.fill(name, LONGEST_TITLE) for name in names])
        picture.axes.invert_yaxis()
        picture.axes.grid(axis="y", visible=False)
        picture.legend(columns=4)
    return picture.markup


def step_parts(parts: Mapping[str, Mapping[str, float]]) -> str:
    """Return a picture of the milliseconds of a step, with a bar for each arm, and its parts one after another."""
    names = shown_parts(parts)
    height = 1.1 + 0.42 * len(parts)
    with drawing("step-parts", "Where a step's time goes", ("milliseconds of a step", ""), height=height) as picture:
        for row, of_arm in enumerate(parts.values()):
            ended = 0.0
            for name, colour in zip(names, (*SERIES, *PARTS), strict=False):
                width = 1000 * of_arm.get(name, 0.0)
                picture.axes.barh(row, width, left=ended, height=0.62, color=colour, label=WORDS[name])
                ended += width
        picture.axes.set_yticks(range(len(parts)), list(parts))
        picture.axes.invert_yaxis()
        picture.axes.grid(axis="y", visible=False)
        picture.legend()
    return picture.markup


def gains(arm: str, rows: Sequence[Gain]) -> str:
    """Return a picture of what each change of a step would save, with intervals, top to bottom, and a line at zero."""
    height = 1.2 + 0.42 * len(rows)
    description = f"What each change would gain of a step of {arm}"
    with drawing(f"gains-{arm}", description, ("milliseconds of a step", ""), height=height) as picture:
        picture.axes.axvline(0, color=INK, linewidth=0.9)
        for place, row in enumerate(rows):
            marker, is_filled = GAIN_MARKERS[row.how]
            ends = [[1000 * (row.seconds - row.lower)], [1000 * (row.upper - row.seconds)]]
            style: dict[str, Any] = {"fmt": marker, "color": ARM_COLOURS[arm], "capsize": 3, "markersize": 6}
            style |= {} if is_filled else {"markerfacecolor": CARD}
            picture.axes.errorbar([1000 * row.seconds], [place], xerr=ends, label=row.how, **style)
        picture.axes.set_yticks(range(len(rows)), [textwrap.fill(row.what, LONGEST_TITLE) for row in rows])
        picture.axes.set_ylim(len(rows) - 0.5, -0.5)
        picture.axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        picture.axes.grid(axis="y", visible=False)
        picture.legend()
    return picture.markup


def over_epochs(runs: Sequence[ShownRun], name: str, label: str, value: Callable[[Epoch], float]) -> str:
    """Return a picture of a value over epochs, with a line for each run."""
    with drawing(name, f"{label} over epochs", ("epoch", label)) as picture:
        for run in runs:
            history = detail_of(run.result).history
            _line(picture, run, [epoch.epoch for epoch in history], [value(epoch) for epoch in history])
        picture.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        picture.legend()
    return picture.markup


def over_seconds(runs: Sequence[ShownRun], name: str, label: str, value: Callable[[Epoch], float]) -> str:
    """Return a picture of a value over training seconds, with a line for each run: how soon does it reach a value?"""
    with drawing(name, f"{label} over training seconds", ("training seconds (steady state)", label)) as picture:
        for run in runs:
            history = detail_of(run.result).history
            _line(picture, run, elapsed(run.result), [value(epoch) for epoch in history])
        picture.axes.set_xlim(left=0)
        picture.legend()
    return picture.markup


def metric(runs: Sequence[ShownRun], name: str) -> str:
    """Return a picture of a metric that a script reports, over seconds since its start, with a line for each run."""
    with drawing("metric", f"{name} over seconds", ("seconds since the start", name)) as picture:
        for run in runs:
            points = run.result.reported.get(name, [])
            _line(picture, run, [point.seconds for point in points], [point.value for point in points])
        picture.axes.set_xlim(left=0)
        picture.legend()
    return picture.markup


def class_accuracy(runs: Sequence[ShownRun]) -> str:
    """Return a picture of the mean accuracy of each class, by arm."""
    classes = shown_names(detail_of(runs[0].result).class_names)
    height = 1.3 + 0.22 * len(classes)
    with drawing("class-accuracy", "Test accuracy by class", ("test accuracy, %", "class"), height=height) as picture:
        arms = _arms(runs)
        for offset, arm in enumerate(arms):
            table = [detail_of(run.result).class_accuracy for run in runs if run.result.arm == arm]
            rates = np.array([[np.nan if rate is None else rate for rate in row] for row in table])
            picture.axes.plot(
                100 * rates.mean(axis=0),
                np.arange(len(classes)) + 0.78 / len(arms) * (offset - (len(arms) - 1) / 2),
                linestyle="none",
                marker=ARM_MARKERS[arm],
                color=ARM_COLOURS[arm],
                label=arm,
            )
        picture.axes.set_yticks(range(len(classes)), classes)
        picture.axes.invert_yaxis()
        picture.legend()
    return picture.markup


def confusion(arm: str, runs: Sequence[ShownRun]) -> str:
    """Return a picture of an arm's confusion matrix over all runs: percentages of the true class, also as shades."""
    of_arm = [detail_of(run.result) for run in runs if run.result.arm == arm]
    counts = np.sum([detail.confusion_matrix for detail in of_arm], axis=0)
    classes = shown_names(of_arm[0].class_names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    description = f"Confusion matrix of {arm}"
    with drawing(f"confusion-{arm}", description, ("predicted class", "true class"), height=3.7) as picture:
        for true, predicted in np.argwhere(counts):
            _cell(picture, int(true), int(predicted), float(shares[true, predicted]))
        long_names = max(map(len, classes)) > 3
        picture.axes.set_xticks(range(len(classes)), classes, rotation=90 if long_names else 0)
        picture.axes.set_yticks(range(len(classes)), classes)
        picture.axes.set(xlim=(-0.5, len(classes) - 0.5), ylim=(len(classes) - 0.5, -0.5))
        picture.axes.grid(visible=False)
    return picture.markup


def step_times(runs: Sequence[ShownRun]) -> str:
    """Return a picture of the distribution of the timed steps of rank 0, with all repeats of an arm together."""
    steps = {arm: [ms for run in runs if run.result.arm == arm for ms in _milliseconds(run)] for arm in _arms(runs)}
    pooled = np.concatenate([values for values in steps.values() if values])
    bins = np.linspace(pooled.min(), max(np.quantile(pooled, STEPS_SHOWN), pooled.min() * 1.01), 40)
    labels = ("step of rank 0, milliseconds", "share of the arm's steps, %")
    with drawing("step-times", "Distribution of step times", labels) as picture:
        for arm, values in steps.items():
            if values:
                share, _ = np.histogram(values, bins)
                line: dict[str, Any] = {"color": ARM_COLOURS[arm], "linestyle": ARM_LINES[arm], "label": arm}
                picture.axes.stairs(100 * share / len(values), bins, linewidth=1.4, **line)
        picture.axes.set_ylim(bottom=0)
        picture.legend()
    return picture.markup


def cpu_over_time(runs: Sequence[ShownRun]) -> str:
    """Return a picture of the CPUs that each worker used over time, in runs of one repeat."""
    with drawing(
        "cpu", "CPUs in use by each worker", ("seconds since the first step", "CPUs in use"), height=3.5
    ) as picture:
        _samples(picture, runs, lambda sample: sample[1])
    return picture.markup


def memory_over_time(runs: Sequence[ShownRun]) -> str:
    """Return a picture of the resident memory of each worker over time, in runs of one repeat."""
    labels = ("seconds since the first step", "resident memory, MiB")
    with drawing("memory", "Memory of each worker", labels, height=3.5) as picture:
        _samples(picture, runs, lambda sample: sample[2] / 2**20)
    return picture.markup


def sampled_runs(runs: Sequence[ShownRun]) -> list[ShownRun]:
    """Return the runs of the first repeat in which every run has samples. If there is no such repeat, return those of
    the first repeat in which any run has samples, else nothing.

    A worker is sampled once a second, so a run that trains for less than a second has no sample.
    """
    repeats = {run.repeat: [other for other in runs if other.repeat == run.repeat] for run in runs}
    numbers = {repeat: sum(_is_sampled(run) for run in of_repeat) for repeat, of_repeat in sorted(repeats.items())}
    whole = [repeat for repeat, number in numbers.items() if number == len(repeats[repeat])]
    partly = [repeat for repeat, number in numbers.items() if number]
    return repeats[(whole or partly)[0]] if partly else []


def scaling(projection: Projection, measured: Mapping[int, Estimate]) -> str:
    """Return a picture of the projected speedup over the number of workers: the band, the projected numbers if there
    are any, the ideal, and the measured speedups of Ray."""
    now, colour = (projection.measured[-1], projection.speedup), ARM_COLOURS[RAY.name]
    points = [(point.workers, point.lower, point.upper) for point in projection.points]
    band = [(now[0], now[1], now[1]), *points]
    numbers = [now, *((point.workers, point.speedup) for point in projection.points if point.speedup is not None)]
    with drawing("scaling", "Predicted speedup by workers", ("workers", "speedup"), height=3.7) as picture:
        axes, most = picture.axes, band[-1][0]
        axes.plot([1, most], [1, most], color=MUTED, linestyle=(0, (1, 3)), label="ideal")
        workers, lower, upper = zip(*band, strict=True)
        if points:
            axes.fill_between(workers, lower, upper, color=colour, alpha=0.2, linewidth=0, label="ray, 90 % band")
            axes.plot(*zip(*numbers, strict=True), color=colour, linestyle="dashed", label="ray, probably")
        if measured:
            speedups = list(measured.values())
            ends = [(value.lower or value.low, value.upper or value.high) for value in speedups]
            medians = [value.median for value in speedups]
            bars = [
                [max(0.0, median - lower) for median, (lower, _) in zip(medians, ends, strict=True)],
                [max(0.0, upper - median) for median, (_, upper) in zip(medians, ends, strict=True)],
            ]
            style: dict[str, Any] = {"fmt": "^-", "color": ARM_COLOURS[RAY.name], "label": "ray, measured"}
            axes.errorbar(list(measured), medians, yerr=bars, capsize=3, **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        picture.legend(columns=2)
    return picture.markup


def _line(picture: Picture, run: ShownRun, x: Sequence[float], y: Sequence[float]) -> None:
    arm = run.result.arm
    style: dict[str, Any] = {"color": ARM_COLOURS[arm], "linestyle": ARM_LINES[arm], "marker": ARM_MARKERS[arm]}
    picture.axes.plot(x, y, label=arm, alpha=0.85, markersize=3, **style)


def _cell(picture: Picture, true: int, predicted: int, share: float) -> None:
    sides = [predicted - 0.5, predicted + 0.5]
    shade = 0.06 + 0.36 * share
    picture.axes.fill_between(sides, true - 0.5, true + 0.5, color=HEAT, alpha=shade, linewidth=0)
    text = f"{100 * share:.0f}" if share >= 0.01 else "<1"
    picture.axes.text(predicted, true, text, ha="center", va="center", fontsize=7.5, color=INK)


def _milliseconds(run: ShownRun) -> Iterable[float]:
    return (1000 * seconds for seconds in run.result.steps.trace)


def _samples(picture: Picture, runs: Sequence[ShownRun], value: Callable[[list[float]], float]) -> None:
    """Draw one line for each worker. Workers of the same arm have the same colour and different kinds of line."""
    for run in runs:
        for worker in run.result.workers:
            _worker(picture, run, worker, value)
    picture.axes.margins(y=0.1)
    picture.axes.set_ylim(bottom=0)
    picture.legend(columns=2)


def _is_sampled(run: ShownRun) -> bool:
    return any(worker.samples for worker in run.result.workers)


def _worker(picture: Picture, run: ShownRun, worker: Worker, value: Callable[[list[float]], float]) -> None:
    arm, workers = run.result.arm, len(run.result.workers)
    named = 1 < workers <= len(_WORKER_LINES)  # more would fill the legend: then they share their arm's entry
    line = _WORKER_LINES[worker.rank % len(_WORKER_LINES)] if named else "solid"
    seconds = [sample[0] for sample in worker.samples]
    values = [value(sample) for sample in worker.samples]
    label = f"{arm}, rank {worker.rank}" if named else arm
    marker = ARM_MARKERS[arm] if len(values) == 1 else ""  # one sample makes no line
    picture.axes.plot(seconds, values, color=ARM_COLOURS[arm], linestyle=line, marker=marker, label=label)


def shown_names(names: Sequence[str]) -> list[str]:
    """Return class names as labels: cut to `LONGEST_NAME`, and without characters that SVG does not allow."""
    printable = ("".join(letter if letter.isprintable() else "\ufffd" for letter in name) for name in names)
    return [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in printable]


def _arms(runs: Sequence[ShownRun]) -> list[str]:
    return [arm for arm in ARMS if any(run.result.arm == arm for run in runs)]


def best_so_far(runs: Sequence[ShownRun], metric: str) -> str:
    """Return a picture of the best metric of finished trials over seconds since the start, with a line for each run."""
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
    """Return a picture with a line for each trial, over the names of the search space and the metric. A better trial
    has a darker line, and the best trial has a line of its own kind.

    Args:
        trials: The trials that have a metric.
        space: The ranges by name, as the setting has them.
        metric: Name of the metric.
        better: Whether `higher` or `lower` values of the metric are better.
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
    """Return a value's position in its range, from 0 to 1; of a choice, its position in the list."""
    if "choice" in kind:
        return _share(list(kind["choice"]).index(value), 0, len(kind["choice"]) - 1)
    (scale, (low, high)), *_ = kind.items()
    if scale == "log":
        value, low, high = (math.log(each) for each in (value, low, high))
    return _share(value, low, high)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _ends(kind: Mapping[str, Any]) -> list[str]:
    """Return the two ends of a range, as texts."""
    values = next(iter(kind.values()))
    return shown_names([value if isinstance(value, str) else f"{value:g}" for value in (values[0], values[-1])])
