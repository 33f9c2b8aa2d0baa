"""A sweep: the same measurement under several settings, as a file in results/ and as numbers to show. Measures nothing.

`tools.sweep.__main__` drives the stack and writes the file; the page is `report.sweep_page`'s.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from compare.clock import seconds_to_accuracy
from compare.measurement import CompareError, best_validation_accuracy
from compare.ratios import spread
from compare.schema import Comparison, Estimate, Spread
from report.errors import PublishError
from report.figures import MISSING
from report.links import run_files
from report.stored import COMPARISON
from report.table import aligned, wrap
from training.contract.arms import ARMS, BASELINE, RAY
from training.contract.result import ResultError, TrainingResult, read, write_whole

NAME = "sweep.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Point:
    """One combination of the settings swept over."""

    settings: dict[str, str]
    result: str | None = None
    """Folder in results/<stack>/; None while it is not measured."""
    error: str | None = None
    """Why the last attempt failed."""

    @property
    def label(self) -> str:
        """`workers=2 globalBatchSize=64`."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items())


@dataclass(frozen=True)
class Sweep:
    """What was asked for, and how far it is."""

    stack: str
    """The sweep's own stack."""
    key: str
    """Hash of everything that the points share and of the axes: an interrupted sweep goes on where it is the same."""
    axes: dict[str, list[str]]
    base: dict[str, str]
    """Settings of every point, beyond the stack file's."""
    points: list[Point] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every point was measured."""
        return all(point.result for point in self.points)

    def with_point(self, index: int, point: Point) -> "Sweep":
        """The sweep with one of its points replaced."""
        return replace(self, points=[*self.points[:index], point, *self.points[index + 1 :]])

    def write(self, folder: Path) -> None:
        """Write whole, or not at all."""
        text = json.dumps({"schemaVersion": SCHEMA_VERSION, **asdict(self)}, indent=1)
        write_whole(folder / NAME, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Sweep":
        """Raises PublishError on a file that is damaged or of another version."""
        try:
            data = json.loads((folder / NAME).read_text(encoding="utf-8"))
            if data.pop("schemaVersion") != SCHEMA_VERSION:
                raise PublishError(f"{folder / NAME} is of another version: run the sweep again")
            return cls(**data | {"points": [Point(**point) for point in data["points"]]})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PublishError(f"{folder / NAME} can't be read ({error!r}): remove {folder}") from None


@dataclass(frozen=True)
class Row:
    """A point with its numbers; those of an unmeasured point are None."""

    point: Point
    comparison: Comparison | None = None
    seconds_to_accuracy: dict[str, Spread] = field(default_factory=dict)
    """Training seconds, by arm, until the accuracy that every run of the sweep reached."""

    @property
    def workers(self) -> int | None:
        """N of the distributed arms."""
        return int(self.comparison.recipe["workers"]) if self.comparison else None

    def ratio(self, name: str) -> Estimate | None:
        """A ratio of the comparison."""
        return self.comparison.ratios.get(name) if self.comparison else None

    def test_accuracy(self, arm: str) -> float | None:
        """Of the arm, from 0 to 1: the median of its runs."""
        return self._median(arm, "testAccuracy")

    def median_seconds_to_accuracy(self, arm: str) -> float | None:
        """Of the arm's runs; None where one of them is gone."""
        seconds = self.seconds_to_accuracy.get(arm)
        return seconds.median if seconds else None

    def cpu_hours(self, arm: str) -> float | None:
        """Cost: CPUs reserved × hours of its median run, start-up included."""
        return self._median(arm, "cpuHours")

    def _median(self, arm: str, measure: str) -> float | None:
        summary = self.comparison.arms.get(arm) if self.comparison else None
        return summary.median(measure) if summary else None


@dataclass(frozen=True)
class Numbers:
    """All points, and the validation accuracy that every run of every point reached (None: runs are gone)."""

    rows: list[Row]
    accuracy: float | None


def numbers(sweep: Sweep, project: Path) -> Numbers:
    """The numbers of the points measured so far; a point whose result is gone says so in `error`."""
    rows = [_row(point, project / "results" / sweep.stack) for point in sweep.points]
    runs = [_runs(row.comparison, project) for row in rows]
    measured = [results for results in runs if results]
    best = [best_validation_accuracy(run) for arms in measured for of_arm in arms.values() for run in of_arm]
    reached = [value for value in best if value is not None]
    whole = len(measured) == sum(row.comparison is not None for row in rows) and len(reached) == len(best)
    accuracy = min(reached) if reached and whole else None
    if accuracy is None:
        return Numbers(rows, None)
    return Numbers(
        [replace(row, seconds_to_accuracy=_to_accuracy(of, accuracy)) for row, of in zip(rows, runs, strict=True)],
        accuracy,
    )


def _row(point: Point, results: Path) -> Row:
    if point.result is None:
        return Row(point)
    try:
        text = (results / point.result / COMPARISON).read_text(encoding="utf-8")
        return Row(point, Comparison.from_json(text))
    except (OSError, CompareError) as error:
        return Row(replace(point, error=f"its result is gone: {error}"))


def _runs(comparison: Comparison | None, project: Path) -> dict[str, list[TrainingResult]]:
    """The results of a point's runs by arm; empty unless all of them are still there as they were compared."""
    if comparison is None:
        return {}
    results: dict[str, list[TrainingResult]] = {}
    for file in run_files(comparison, project):
        try:
            result = read(project / file.link.path)
        except ResultError:
            return {}
        if file.state != "present":
            return {}
        results.setdefault(result.arm, []).append(result)
    return results


def _to_accuracy(runs: Mapping[str, Sequence[TrainingResult]], accuracy: float) -> dict[str, Spread]:
    seconds = {arm: [seconds_to_accuracy(run, accuracy) for run in of_arm] for arm, of_arm in runs.items()}
    present = {arm: [value for value in values if value is not None] for arm, values in seconds.items()}
    return {arm: spread(values) for arm, values in present.items() if values and len(values) == len(seconds[arm])}


def text(sweep: Sweep, shown: Numbers) -> str:
    """The sweep as a table; what failed and why below it."""
    rows = [["", "speedup", "95 %", "efficiency", "end to end", "accuracy", "s to acc.", "CPU-h"]]
    rows += [_cells(row) for row in shown.rows]
    axes = "; ".join(f"{key} {' '.join(values)}" for key, values in sweep.axes.items())
    parts = [f"{sweep.stack}: sweep of {axes}", aligned(rows, text_columns=(0, 2)), _legend(shown)]
    failed = [
        wrap(f"{row.point.label} failed: {row.point.error}", indent="  ") for row in shown.rows if row.point.error
    ]
    verdicts = [
        wrap(f"{row.point.label}: {row.comparison.verdict}", indent="  ") for row in shown.rows if row.comparison
    ]
    return "\n\n".join([*parts, *verdicts, *failed]) + "\n"


def _cells(row: Row) -> list[str]:
    speedup = row.ratio("speedup")
    return [
        row.point.label,
        _median(speedup, ".2f", "×"),
        f"{speedup.lower:.2f}–{speedup.upper:.2f}" if speedup and speedup.lower and speedup.upper else "",
        _median(row.ratio("efficiency"), ".2f"),
        _median(row.ratio("endToEndSpeedup"), ".2f", "×"),
        _by_arm(row.test_accuracy, ".3f"),
        _by_arm(row.median_seconds_to_accuracy, ".1f"),
        _by_arm(row.cpu_hours, ".4f"),
    ]


def _by_arm(value: Callable[[str], float | None], form: str) -> str:
    """`baseline / ray`."""
    values = [value(arm.name) for arm in (BASELINE, RAY)]
    return " / ".join(MISSING if each is None else f"{each:{form}}" for each in values)


def _median(value: Spread | None, form: str, unit: str = "") -> str:
    return MISSING if value is None else f"{value.median:{form}}{unit}"


def _legend(shown: Numbers) -> str:
    reached = f"{100 * shown.accuracy:.1f} %, which every run reached" if shown.accuracy is not None else "not known"
    return wrap(
        f"Medians; two values are baseline / ray. accuracy: on the test images. s to acc.: training seconds until a "
        f"validation accuracy of {reached}. "
        "CPU-h: reserved CPUs × hours from start to result, the cost of a run."
    )


def arms_of(shown: Numbers) -> list[str]:
    """The arms that any point has."""
    return [arm for arm in ARMS if any(row.comparison and arm in row.comparison.arms for row in shown.rows)]
