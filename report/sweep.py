"""A sweep: the same measurement under several settings, as a file in results/ and as numbers to show. Measures nothing.

`cli.sweep.sweep` drives the stack and writes the file; the page is `report.sweep_page`'s.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from compare import measures
from compare.entries import Measure
from compare.intervals import spread
from compare.measurement import CompareError, best_score
from compare.run_numbers import seconds_to_score
from compare.schema import Comparison, Estimate, Spread
from report.errors import PublishError
from report.figures import MISSING, figure, unit
from report.links import run_files
from report.stored import COMPARISON
from report.table import aligned, wrap
from training.contract.arms import ARMS, BASELINE, RAY
from training.contract.codec import ResultError, write_whole
from training.contract.recipe import WORKLOADS
from training.contract.result import TrainingResult, read

NAME = "sweep.json"
TO_ACCURACY = "timeToAccuracySeconds"
RATIOS = tuple(each for each in measures.RATIOS if each.in_sweeps)
_OF_WORKLOADS = {each.name: each for name in WORKLOADS for each in measures.measures_of(name)}
MEASURES = tuple(each for each in _OF_WORKLOADS.values() if each.in_sweeps)
"""The measures in the text table of a sweep. The page of a sweep has every ratio, too."""
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Point:
    """One combination of the settings that the sweep varies."""

    settings: dict[str, str]
    result: str | None = None
    """Name of the result's folder in results/<stack>/; None while the point is not measured."""
    error: str | None = None
    """Why the last attempt to measure the point failed; None if it did not."""

    @property
    def label(self) -> str:
        """Return the settings of the point as text: `workers=2 globalBatchSize=64`."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items())


@dataclass(frozen=True)
class Sweep:
    """The plan of a sweep, and what of it was measured so far."""

    stack: str
    """Name of the stack that the sweep has for itself."""
    key: str
    """Hash of the axes and of all that points have in common, by which an interrupted sweep is resumed."""
    axes: dict[str, list[str]]
    base: dict[str, str]
    """Settings of every point, beyond the stack file's."""
    points: list[Point] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Return whether every point was measured."""
        return all(point.result for point in self.points)

    def with_point(self, index: int, point: Point) -> "Sweep":
        """Return the sweep with one of its points replaced."""
        return replace(self, points=[*self.points[:index], point, *self.points[index + 1 :]])

    def write(self, folder: Path) -> None:
        """Write the sweep's file into the folder, completely or not at all."""
        text = json.dumps({"schemaVersion": SCHEMA_VERSION, **asdict(self)}, indent=1)
        write_whole(folder / NAME, text + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Sweep":
        """Return the sweep whose file lies in the folder. Raises PublishError if the file is damaged or of another
        version."""
        try:
            data = json.loads((folder / NAME).read_text(encoding="utf-8"))
            if data.pop("schemaVersion") != SCHEMA_VERSION:
                raise PublishError(f"{folder / NAME} is of another version: run the sweep again")
            return cls(**data | {"points": [Point(**point) for point in data["points"]]})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PublishError(f"{folder / NAME} can't be read ({error!r}): remove {folder}") from None


@dataclass(frozen=True)
class Row:
    """A point with its numbers. The numbers of a point that was not measured are None."""

    point: Point
    comparison: Comparison | None = None
    seconds_to_accuracy: dict[str, Spread] = field(default_factory=dict)
    """Training seconds, by arm, until the accuracy that every run of the sweep reached."""

    @property
    def workers(self) -> int | None:
        """Return the number of workers of the distributed arms; None if the point was not measured."""
        return int(self.comparison.recipe["workers"]) if self.comparison else None

    def ratio(self, name: str) -> Estimate | None:
        """Return the ratio of this name in the point's comparison; None if it was not measured."""
        return self.comparison.ratios.get(name) if self.comparison else None

    def spread(self, arm: str, measure: str) -> Spread | None:
        """Return a measure of an arm; None if it was not measured. The time to accuracy is the time to the accuracy
        that all points reached."""
        if measure == TO_ACCURACY:
            return self.seconds_to_accuracy.get(arm)
        summary = self.comparison.arms.get(arm) if self.comparison else None
        return summary.measures.get(measure) if summary else None

    def median(self, arm: str, measure: str) -> float | None:
        """Return the median of an arm's measure; None if it was not measured."""
        value = self.spread(arm, measure)
        return value.median if value else None


@dataclass(frozen=True)
class Numbers:
    """The rows of all points, and the accuracy that every run reached; None if files of runs are gone."""

    rows: list[Row]
    accuracy: float | None


def numbers(sweep: Sweep, project: Path) -> Numbers:
    """Return the numbers of the points measured so far. If a point's result is gone, its `error` says so."""
    rows = [_row(point, project / "results" / sweep.stack) for point in sweep.points]
    runs = [_runs(row.comparison, project) for row in rows]
    measured = [results for results in runs if results]
    best = [best_score(run) for arms in measured for of_arm in arms.values() for run in of_arm]
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
    """Return the results of a point's runs by arm; empty unless the files of all runs are still there and unchanged."""
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
    seconds = {arm: [seconds_to_score(run, accuracy) for run in of_arm] for arm, of_arm in runs.items()}
    present = {arm: [value for value in values if value is not None] for arm, values in seconds.items()}
    return {arm: spread(values) for arm, values in present.items() if values and len(values) == len(seconds[arm])}


def text(sweep: Sweep, shown: Numbers) -> str:
    """Return the sweep as a text table, followed by the verdicts, and by the points that failed with the reasons."""
    rows = [["", *heading_of_ratios(), *(each.in_sweeps for each in MEASURES)]]
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


def heading_of_ratios() -> list[str]:
    """Return the column headings of the ratios. The first ratio has a second column for its interval; the others are
    medians, because a terminal has no room for more."""
    first, *others = (each.in_sweeps for each in RATIOS)
    return [first, "95 %", *others]


def _cells(row: Row) -> list[str]:
    figures = [(figure(value, each), each) if (value := row.ratio(each.name)) else None for each in RATIOS]
    medians = [MISSING if shown is None else f"{shown[0].median}{unit(shown[1])}" for shown in figures]
    interval = figures[0][0].range if figures[0] else ""
    by_arm = [" / ".join(_of_arm(row, arm.name, each) for arm in (BASELINE, RAY)) for each in MEASURES]
    return [row.point.label, medians[0], interval, *medians[1:], *by_arm]


def _of_arm(row: Row, arm: str, each: Measure) -> str:
    value = row.spread(arm, each.name)
    return figure(value, each).median if value else MISSING


def _legend(shown: Numbers) -> str:
    reached = f"{100 * shown.accuracy:.1f} %, which every run reached" if shown.accuracy is not None else "not known"
    return wrap(
        f"Medians; two values are baseline / ray. accuracy: on the test images. s to acc.: training seconds until a "
        f"validation accuracy of {reached}. "
        "CPU-h: reserved CPUs × hours from start to result, the cost of a run."
    )


def arms_of(shown: Numbers) -> list[str]:
    """Return the arms that any point has."""
    return [arm for arm in ARMS if any(row.comparison and arm in row.comparison.arms for row in shown.rows)]
