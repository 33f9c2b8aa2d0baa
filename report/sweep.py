"""A sweep: the same measurement under several settings, as a file in results/ and as numbers to show. Measures nothing.

`tools.sweep` drives the stack and writes the file; the page is `report.sweep_page`'s.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from report.errors import PublishError
from report.links import run_files
from report.stored import COMPARISON
from report.table import MISSING, aligned, wrap
from training import ratios
from training.comparison import CompareError, Comparison
from training.comparison_schema import ArmSummary, ComparisonData, Spread
from training.config import ARMS
from training.result import ResultError, read, write_whole

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
    data: ComparisonData | None = None
    seconds_to_accuracy: dict[str, Spread] = field(default_factory=dict)
    """Training seconds, by arm, until the accuracy that every run of the sweep reached."""

    @property
    def workers(self) -> int | None:
        """N of the distributed arms."""
        return int(self.data["recipe"]["workers"]) if self.data else None

    def ratio(self, name: str) -> Spread | None:
        """A ratio of the comparison."""
        return cast("dict[str, Any]", self.data)[name] if self.data else None

    def test_accuracy(self, arm: str) -> float | None:
        """Of the arm, from 0 to 1: the median of its runs."""
        summary = self._summary(arm)
        return summary["testAccuracy"] if summary else None

    def median_seconds_to_accuracy(self, arm: str) -> float | None:
        """Of the arm's runs; None where one of them is gone."""
        found = self.seconds_to_accuracy.get(arm)
        return found["median"] if found else None

    def worker_seconds(self, arm: str) -> float | None:
        """Cost: workers of the arm × wall seconds of its median run, start-up included."""
        summary = self._summary(arm)
        wall = summary["wallSeconds"] if summary else None
        return summary["worldSize"] * wall if summary and wall is not None else None

    def _summary(self, arm: str) -> ArmSummary | None:
        return cast("ArmSummary | None", cast("dict[str, Any]", self.data or {}).get(arm))


@dataclass(frozen=True)
class Numbers:
    """All points, and the validation accuracy that every run of every point reached (None: runs are gone)."""

    rows: list[Row]
    accuracy: float | None


def numbers(sweep: Sweep, project: Path) -> Numbers:
    """The numbers of the points measured so far; a point whose result is gone says so in `error`."""
    rows = [_row(point, project / "results" / sweep.stack) for point in sweep.points]
    runs = [_runs(row.data, project) for row in rows]
    measured = [summaries for summaries in runs if summaries]
    best = [ratios.best_validation_accuracy(run) for arms in measured for of_arm in arms.values() for run in of_arm]
    reached = [value for value in best if value is not None]
    whole = len(measured) == sum(row.data is not None for row in rows) and len(reached) == len(best)
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
        return Row(point, Comparison.from_json(text).data)
    except (OSError, CompareError) as error:
        return Row(replace(point, error=f"its result is gone: {error}"))


def _runs(data: ComparisonData | None, project: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of a point's runs by arm; empty unless all of them are still there as they were compared."""
    if data is None:
        return {}
    found: dict[str, list[dict[str, Any]]] = {}
    for file in run_files(Comparison(data), project):
        try:
            result = read(project / file.link["path"])
        except ResultError:
            return {}
        if file.state != "present":
            return {}
        found.setdefault(result.arm, []).append(result.to_dict())
    return found


def _to_accuracy(runs: Mapping[str, Sequence[dict[str, Any]]], accuracy: float) -> dict[str, Spread]:
    seconds = {arm: [ratios.seconds_to_accuracy(run, accuracy) for run in of_arm] for arm, of_arm in runs.items()}
    present = {arm: [value for value in values if value is not None] for arm, values in seconds.items()}
    return {
        arm: ratios.spread(values) for arm, values in present.items() if values and len(values) == len(seconds[arm])
    }


def text(sweep: Sweep, shown: Numbers) -> str:
    """The sweep as a table; what failed and why below it."""
    rows = [["", "speedup", "range", "efficiency", "end to end", "accuracy", "s to acc.", "worker-s"]]
    rows += [_cells(row) for row in shown.rows]
    axes = "; ".join(f"{key} {' '.join(values)}" for key, values in sweep.axes.items())
    parts = [f"{sweep.stack}: sweep of {axes}", aligned(rows, text_columns=(0, 2)), _legend(shown)]
    failed = [
        wrap(f"{row.point.label} failed: {row.point.error}", indent="  ") for row in shown.rows if row.point.error
    ]
    verdicts = [wrap(f"{row.point.label}: {row.data['verdict']}", indent="  ") for row in shown.rows if row.data]
    return "\n\n".join([*parts, *verdicts, *failed]) + "\n"


def _cells(row: Row) -> list[str]:
    speedup = row.ratio("speedup")
    return [
        row.point.label,
        _median(speedup, ".2f", "×"),
        f"{speedup['low']:.2f}–{speedup['high']:.2f}" if speedup and speedup["n"] > 1 else "",
        _median(row.ratio("efficiency"), ".2f"),
        _median(row.ratio("endToEndSpeedup"), ".2f", "×"),
        _by_arm(row.test_accuracy, ".3f"),
        _by_arm(row.median_seconds_to_accuracy, ".1f"),
        _by_arm(row.worker_seconds, ",.0f"),
    ]


def _by_arm(value: Callable[[str], float | None], form: str) -> str:
    """`baseline / ray`."""
    found = [value(arm) for arm in ("baseline", "ray")]
    return " / ".join(MISSING if one is None else f"{one:{form}}" for one in found)


def _median(value: Spread | None, form: str, unit: str = "") -> str:
    return MISSING if value is None else f"{value['median']:{form}}{unit}"


def _legend(shown: Numbers) -> str:
    reached = f"{100 * shown.accuracy:.1f} %, which every run reached" if shown.accuracy is not None else "not known"
    return wrap(
        f"Medians; two values are baseline / ray. accuracy: on the test images. s to acc.: training seconds until a "
        f"validation accuracy of {reached}. "
        "worker-s: workers × seconds from start to result, the cost of a run."
    )


def arms_of(shown: Numbers) -> list[str]:
    """The arms that any point has."""
    return [arm for arm in ARMS if any(row.data and cast("dict[str, Any]", row.data)[arm] for row in shown.rows)]
