"""The entries of the catalogue, a measure of an arm or a ratio of two arms, and their values in the runs. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compare.measurement import Context, Measurement, Run
from compare.run_numbers import Number
from compare.schema import Claim
from compare.value import Missing, Value
from compare.words import enumerated, names_by_reason
from training.contract.workload import Workload

NOT_MEASURED = "no repeat measured it"
ZERO = "it is 0 in some run, and nothing can be divided by it"
Better = Literal["lower", "higher", ""]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number of a run, shown for each arm as its median over the repeats."""

    name: str
    title: str
    meaning: str
    of: Number
    unit: str = ""
    digits: int = 2
    factor: float = 1
    """Factor by which a value is multiplied for showing the value in `unit`."""
    better: Better = ""
    because: str = ""
    """Key of a run's `reasons` that says why the measure is missing; "" if the key is `name`."""
    otherwise: str = NOT_MEASURED
    """Why the measure is missing, if no run says why."""
    column: str = ""
    """Heading of the measure in the text table; "" if the table does not show it."""
    on_page: bool = True
    in_changes: bool = False
    """Whether two measurements are compared by this measure."""
    in_sweeps: str = ""
    """Heading in the table of a sweep, "" if it has none there. The table on the page has it for each arm."""
    least: float | None = None
    """The measure is only shown if a run of some arm has more than this; None if it is always shown."""
    only: Callable[[Workload], bool] | None = None
    """Function that says whether a workload has this measure; None if all workloads have it."""
    output_if: Callable[[Context], bool] | None = None
    """Function that says whether a stack with these settings has this measure of Ray as an output; None if no stack
    has."""

    def values(self, numbers: Sequence[float | None], runs: Sequence[Run]) -> list[Value]:
        """Return the value of this measure for each of the runs, or why it is missing. `numbers`: the number that was
        read of each run."""
        reasons = [run.result.reasons.get(self.because or self.name) or self.otherwise for run in runs]
        return [Missing(why) if number is None else number for number, why in zip(numbers, reasons, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A ratio, or difference, of a number of two arms in a repeat. A quotient of times above 1 favours `below`."""

    name: str
    title: str
    above: str
    """Name of the arm whose number is the numerator."""
    below: str
    of: Number
    meaning: str
    kind: Literal["quotient", "difference"] = "quotient"
    unit: str = "×"
    factor: float = 1
    per_worker: bool = False
    words: tuple[str, str] | None = ("slower", "faster")
    """Words for a ratio that is certainly below 1, and certainly above 1; None if 1 has no special meaning."""
    because: str = "seconds.train"
    otherwise: str = "not measured in every repeat"
    detail: str = ""
    """What the docs add to the meaning."""
    in_changes: bool = False
    in_sweeps: str = ""
    """Heading in the text table of a sweep, "" if it has none there. The sweep's page has all ratios."""
    only: Callable[[Workload], bool] | None = None
    """Function that says whether a workload has this ratio; None if all workloads have it."""
    claims: tuple[Claim, ...] = ("same work",)
    """Claims with which the ratio may be given."""
    wanted_by: Callable[[Context], bool] | None = None
    """Function that says whether the settings ask for the ratio; None if every stack with both arms has it."""

    def can_exist(self, context: Context) -> bool:
        """Return whether a measurement with these settings may have this ratio."""
        return {self.above, self.below} <= {*context.arms} and (self.wanted_by is None or self.wanted_by(context))

    def values(self, numbers: Mapping[str, Sequence[float | None]], measurement: Measurement) -> list[Value]:
        """Return the value of this ratio in each repeat, from the numbers of the arms' runs, or why it is missing: of
        runs that lack the number, as they say; of an arm that was not measured, why it was not."""
        if self.wanted_by and not self.wanted_by(measurement.context):
            return [Missing(self.otherwise)] * len(measurement.repeats)
        measured = {*measurement.arms, *measurement.variants}
        absent = [name for name in (self.above, self.below) if name not in measured]
        if absent and measurement.repeats:
            return [Missing(measurement.absent.get(absent[0], self.otherwise))] * len(measurement.repeats)
        sides = list(zip(numbers[self.above], numbers[self.below], strict=True))
        runs = [*measurement.by_arm[self.above], *measurement.by_arm[self.below]]
        of_runs = zip(runs, [*numbers[self.above], *numbers[self.below]], strict=True)
        lacking = self._lacking([run for run, number in of_runs if number is None])
        workers = measurement.recipe.workers
        return [self._of(above, below, lacking, workers) for above, below in sides]

    def _of(self, above: float | None, below: float | None, lacking: Missing, workers: int) -> Value:
        if above is None or below is None:
            return lacking
        if self.kind == "difference":
            return self.factor * (above - below)
        share = workers if self.per_worker else 1
        return self.factor * above / below / share if above > 0 and below > 0 else lacking

    def _lacking(self, runs: Sequence[Run]) -> Missing:
        if not runs and self.kind == "quotient":
            return Missing(ZERO)
        reasons = [(run.name, why) for run in runs if (why := run.result.reasons.get(self.because))]
        texts = [
            f"{enumerated(names)} {'have' if len(names) > 1 else 'has'} no {self.because}: {why}"
            for why, names in names_by_reason(reasons).items()
        ]
        return Missing("; ".join(texts) or self.otherwise)
