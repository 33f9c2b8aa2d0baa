"""What an entry of the catalogue is: a measure of an arm or a ratio of two, and how runs have values of it. Pure."""

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
    """What a value is multiplied by to be shown in `unit`."""
    better: Better = ""
    because: str = ""
    """The key of a run's `reasons` that says why it is missing, if it is not the name."""
    otherwise: str = NOT_MEASURED
    """Why it is missing where no run says it."""
    column: str = ""
    """Heading in the text table; "": not there."""
    on_page: bool = True
    in_changes: bool = False
    """Whether two measurements are compared by it."""
    in_sweeps: str = ""
    """Heading in the table of a sweep, for each arm on its page; "": not there."""
    least: float | None = None
    """Shown only where a run of some arm had more."""
    only: Callable[[Workload], bool] | None = None
    """Whether a workload has it; None: each does."""

    def values(self, numbers: Sequence[float | None], runs: Sequence[Run]) -> list[Value]:
        """Return it of each of these runs, which have these numbers of it."""
        reasons = [run.result.reasons.get(self.because or self.name) or self.otherwise for run in runs]
        return [Missing(why) if number is None else number for number, why in zip(numbers, reasons, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A ratio, or a difference, of two arms' runs in one repeat. A quotient above 1 favours the arm below the line."""

    name: str
    title: str
    above: str
    """Name of an arm."""
    below: str
    of: Number
    meaning: str
    kind: Literal["quotient", "difference"] = "quotient"
    unit: str = "×"
    factor: float = 1
    per_worker: bool = False
    words: tuple[str, str] | None = ("slower", "faster")
    """What it says of Ray when it is below 1 with 95 % confidence, and above; None: 1 means nothing special."""
    because: str = "seconds.train"
    otherwise: str = "not measured in every repeat"
    detail: str = ""
    """What the docs add to the meaning."""
    in_changes: bool = False
    in_sweeps: str = ""
    """Heading in a sweep's text table; on its page stand all."""
    only: Callable[[Workload], bool] | None = None
    """Whether a workload has it; None: each does."""
    claims: tuple[Claim, ...] = ("same work",)
    """Under which it may be said."""
    wanted_by: Callable[[Context], bool] | None = None
    """Whether the settings ask for it; None: those of every stack with both arms."""

    def can_exist(self, context: Context) -> bool:
        """Return whether a measurement with these settings may have it."""
        return {self.above, self.below} <= {*context.arms} and (self.wanted_by is None or self.wanted_by(context))

    def values(self, numbers: Mapping[str, Sequence[float | None]], measurement: Measurement) -> list[Value]:
        """Return it within each repeat, from the numbers of the arms' runs.

        Why there is none, where an arm was not measured or a run has no such number, is said of all runs that lack it.
        """
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
