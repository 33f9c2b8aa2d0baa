"""What reading through Ray Data gains: the arm `raydata` against `ray`, and no other. Pure.

Both run the same script on the same CPUs, so a quotient of their times means something only if as many rows were
trained on. That is required here: it is a check of its own, and the verdict is never about it.
"""

from dataclasses import dataclass, replace

from compare import fairness, quiet
from compare.measurement import Measurement, Run, of_repeats
from compare.schema import Estimate
from compare.value import Check, Missing, Summary
from training.contract.arms import RAY, RAYDATA

GAIN = "dataGain"
ROWS_EQUAL = "dataRowsEqual"
"""Name of the check that both arms trained on the same number of rows. The comparison has this check if the arm
`raydata` was measured."""
_ROWS, _WHY_NO_ROWS = "rows", "work.rows"
"""Keys of a result's `did` and `reasons` for the rows that a run trained on."""


@dataclass(frozen=True)
class DataPair:
    """The comparison of the runs with and without Ray Data."""

    rows: Check
    """Whether both arms trained on the same number of rows in every repeat."""
    problem: str
    """Why the two arms can't be compared; "" if they can."""

    def gain(self, ratio: Summary[Estimate]) -> Summary[Estimate]:
        """Return `ratio`, the ratio of the two arms, or why it may not be given."""
        return Summary(Missing(self.problem)) if self.problem else ratio


def data_pair(measurement: Measurement) -> DataPair | None:
    """Return the comparison of both arms over all complete repeats; None if that with Ray Data has no runs."""
    if RAYDATA.name not in measurement.variants:
        return None
    rows = _rows_equal(measurement)
    problem = "" if rows.passed else f"not comparable: {rows.why}"
    return DataPair(rows, problem or _unfair(measurement))


def _pairs(measurement: Measurement) -> list[tuple[Run, Run]]:
    return list(zip(measurement.by_arm[RAY.name], measurement.by_arm[RAYDATA.name], strict=True))


def _rows_equal(measurement: Measurement) -> Check:
    for pair in _pairs(measurement):
        counts = [_rows_of(run) for run in pair]
        unknown = [run for run, rows in zip(pair, counts, strict=True) if rows is None]
        if unknown:
            why = unknown[0].result.reasons.get(_WHY_NO_ROWS, "none was seen")
            return Check(None, f"the rows of {unknown[0].name} were not counted: {why}")
        first, second = (rows or 0.0 for rows in counts)
        if abs(first - second) > _evened(pair[0]):
            of_runs = " and ".join(f"{run.name} {rows:,.0f}" for run, rows in zip(pair, counts, strict=True))
            return Check(False, f"the training saw other numbers of rows: {of_runs}")
    return Check(True, "")


def _rows_of(run: Run) -> float | None:
    return float(run.result.did[_ROWS]) if _ROWS in run.result.did else None


def _evened(run: Run) -> int:
    """Return by how many rows the two arms may differ. In each epoch a sampler adds up to ranks - 1 rows so that all
    ranks have equally many, and Ray Data leaves out as many. With one rank no row is added or left out."""
    ranks = run.result.world_size or len(run.result.workers)
    return 2 * (ranks - 1) * max(1, run.result.epochs_completed)


def _unfair(measurement: Measurement) -> str:
    """Return which check fails for the runs of these two arms alone; "" if none does."""
    context = replace(measurement.context, arms=(RAY.name, RAYDATA.name))
    pair = of_repeats([{RAY.name: first, RAYDATA.name: second} for first, second in _pairs(measurement)], context)
    verified = fairness.verify(pair, quiet.observe(pair).check)
    return next((f"not comparable: {name} failed: {verified.checks[name].why}" for name in verified.failed), "")
