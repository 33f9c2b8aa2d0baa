"""The benchmark's figures, once each: what a figure is of, how it is called in the table. Pure.

Ratios are taken within a repeat, because machines drift.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from training.contract import result

TITLES = {"wide": "one process, all CPUs", "native": "native", "ray": "Ray"}
"""Titles of the arms that are compared with the limit, in display order."""
OTHER_GRADIENTS = "otherGradients"
"""A native run that exchanges gradients in the other type: bfloat16 where it computes in float32, and the reverse."""
PLAIN_FIT = "model.fit"


@dataclass(frozen=True)
class Repeat:
    """Results of one repeat, in which each arm ran once; `fit_images_per_second` is None if `model.fit` was not run."""

    runs: dict[str, result.TrainingResult]
    fit_images_per_second: float | None

    def seconds(self, arm: str) -> float:
        """Return the seconds that an arm's timed steps took. Raises RuntimeError if the arm was not timed."""
        train_seconds = self.runs[arm].seconds.train
        if train_seconds is None:
            raise RuntimeError(f"{arm} was not timed: {self.runs[arm].reasons.get('seconds.train')}")
        return train_seconds

    def step_seconds(self, arm: str) -> float:
        """Return the mean seconds of an arm's timed step."""
        return self.seconds(arm) / self.runs[arm].steps.timed


@dataclass(frozen=True)
class Figure:
    """A number that is computed from one repeat, with its name in JSON and its title in the table."""

    name: str
    title: str
    of: Callable[[Repeat], float]
    needs: tuple[str, ...]
    """Names of the runs that the figure is computed from."""

    def is_of(self, repeat: Repeat) -> bool:
        """Return whether the repeat has all runs that this figure is computed from."""
        return all(name in repeat.runs or (name == PLAIN_FIT and repeat.fit_images_per_second) for name in self.needs)


def _of_arm(arm: str, title: str) -> Iterator[Figure]:
    yield Figure(
        f"{arm}Speedup", f"{title}, speedup ×", lambda r: r.seconds("baseline") / r.seconds(arm), ("baseline", arm)
    )
    yield Figure(f"{arm}OfLimit", "  of the limit", lambda r: r.seconds("limit") / r.seconds(arm), ("limit", arm))
    if arm == "native":
        yield Figure(
            "otherGradientsOfLimit",
            "  gradients in the other type",
            lambda r: r.seconds("limit") / r.seconds(OTHER_GRADIENTS),
            ("limit", OTHER_GRADIENTS),
        )
    elif arm != "wide":
        yield Figure(f"{arm}OverNative", "  / native", lambda r: r.seconds(arm) / r.seconds("native"), ("native", arm))


def _startup(arm: str, title: str) -> Figure:
    return Figure(
        f"{arm}StartupSeconds", f"{title}, start to first step, s", lambda r: r.runs[arm].seconds.startup or 0.0, (arm,)
    )


def _peak(run: result.TrainingResult) -> float:
    return float(max(worker.peak_memory_bytes or 0 for worker in run.workers))


FIGURES = (
    Figure(
        "limit",
        "limit of this machine, ×",
        lambda r: r.seconds("baseline") / r.seconds("limit"),
        ("baseline", "limit"),
    ),
    *(figure for arm, title in TITLES.items() for figure in _of_arm(arm, title)),
    Figure(
        "baselineOverFit",
        "baseline / model.fit, images/s",
        lambda r: (r.runs["baseline"].amount.per_second or 0) / (r.fit_images_per_second or 0),
        ("baseline", PLAIN_FIT),
    ),
    Figure(
        "memory",
        "Ray worker / baseline, memory",
        lambda r: _peak(r.runs["ray"]) / _peak(r.runs["baseline"]),
        ("baseline", "ray"),
    ),
    *(_startup(arm, title) for arm, title in ({"baseline": "baseline"} | TITLES).items()),
)
"""All figures, in the order in which the table shows them."""


def summarise(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Return each figure's median and range over the repeats. A figure that was not measured is left out."""
    last = repeats[-1].runs
    figures = {each.name: each for each in FIGURES if each.is_of(repeats[0])}
    return {name: _spread([each.of(repeat) for repeat in repeats]) for name, each in figures.items()} | {
        "startupPhases": {arm: last[arm].seconds.phases for arm in ("baseline", *TITLES) if arm in last},
        "stepSeconds": {name: _spread([repeat.step_seconds(name) for repeat in repeats]) for name in last},
    }


def table(columns: dict[str, dict[str, Any]]) -> str:
    """Return the table as text: one row for each figure, one column for each case."""
    lines = [f"{'median (lowest to highest)':<42}" + "".join(f"{key:>24}" for key in columns)]
    for each in FIGURES:
        cells = [_cell(column.get(each.name)) for column in columns.values()]
        lines += [f"{each.title:<42}" + "".join(f"{cell:>24}" for cell in cells)] if any(cells) else []
    return "\n".join(lines)


def _cell(figure: dict[str, float] | None) -> str:
    return f"{figure['median']:.3f} ({figure['low']:.3f}–{figure['high']:.3f})" if figure else ""


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}
