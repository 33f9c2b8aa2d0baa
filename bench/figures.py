"""The benchmark's figures, once each: what a figure is of, how it is called in the table. Pure.

Ratios are taken within a repeat, because machines drift.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from training.contract import result

TITLES = {"wide": "one process, all CPUs", "native": "native", "ray": "Ray"}
"""The arms that are compared with the limit, in display order."""
OTHER_GRADIENTS = "otherGradients"
"""The name of a native run that exchanges gradients in the type that its column does not compute in."""
PLAIN_FIT = "model.fit"


@dataclass(frozen=True)
class Repeat:
    """A repeat: each arm once; the rate of `model.fit` is None if it was not run."""

    runs: dict[str, result.TrainingResult]
    fit_images_per_second: float | None

    def seconds(self, arm: str) -> float:
        """Return the steady-state seconds of an arm."""
        train_seconds = self.runs[arm].seconds.train
        if train_seconds is None:
            raise RuntimeError(f"{arm} was not timed: {self.runs[arm].reasons.get('seconds.train')}")
        return train_seconds

    def step_seconds(self, arm: str) -> float:
        """Return the mean timed step of an arm."""
        return self.seconds(arm) / self.runs[arm].steps.timed


@dataclass(frozen=True)
class Figure:
    """A number of a repeat."""

    name: str
    title: str
    of: Callable[[Repeat], float]
    needs: tuple[str, ...]
    """The runs without which there is none."""

    def is_of(self, repeat: Repeat) -> bool:
        """Return whether the repeat has all that this needs."""
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
"""In the order in which they are shown."""


def summarise(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """Return figures with their median and range over the repeats; what was not measured is absent."""
    last = repeats[-1].runs
    figures = {each.name: each for each in FIGURES if each.is_of(repeats[0])}
    return {name: _spread([each.of(repeat) for repeat in repeats]) for name, each in figures.items()} | {
        "allReduceSeconds": last["native"].all_reduce,
        "startupPhases": {arm: last[arm].seconds.phases for arm in ("baseline", *TITLES) if arm in last},
        "stepSeconds": {name: _spread([repeat.step_seconds(name) for repeat in repeats]) for name in last},
    }


def table(columns: dict[str, dict[str, Any]]) -> str:
    """Return one line a figure, one column a case."""
    lines = [f"{'median (lowest to highest)':<42}" + "".join(f"{key:>24}" for key in columns)]
    for each in FIGURES:
        cells = [_cell(column.get(each.name)) for column in columns.values()]
        lines += [f"{each.title:<42}" + "".join(f"{cell:>24}" for cell in cells)] if any(cells) else []
    return "\n".join(lines)


def _cell(figure: dict[str, float] | None) -> str:
    return f"{figure['median']:.3f} ({figure['low']:.3f}–{figure['high']:.3f})" if figure else ""


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "n": len(values)}
