"""The data that is compared: runs, the repeats that they form, and the settings. It computes next to nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from training.contract.arms import ARMS, counted, with_role
from training.contract.codec import ResultError
from training.contract.recipe import Recipe
from training.contract.result import Summary, TrainingResult
from training.contract.workload import Target, Workload, named


class CompareError(ValueError):
    """Runs that must not be compared, or a comparison that cannot be read."""


@dataclass(frozen=True)
class Run:
    """One finished run."""

    name: str
    """For example `ray-2`."""
    repeat: int
    """From 1."""
    result: TrainingResult
    """Its long series may be empty."""
    path: str = ""
    """Its `result.json`, relative to the project."""
    sha256: str = ""

    @classmethod
    def from_summary(cls, name: str, repeat: int, summary: dict[str, Any]) -> "Run":
        """The run of a `TrainingResult.summary()`; raises CompareError on one of another version."""
        try:
            stored = Summary.from_dict(summary)
        except ResultError as error:
            raise CompareError(f"{name}: {error}; run `make up` to measure again") from None
        return cls(name, repeat, stored.result, stored.path, stored.sha256)

    @property
    def arm(self) -> str:
        """The arm's name."""
        return self.result.arm

    @property
    def started(self) -> float:
        """Seconds since the epoch."""
        return datetime.fromisoformat(self.result.started_at).timestamp()

    @property
    def ended(self) -> float:
        """The end of the run, in seconds since the epoch."""
        return self.started + self.result.seconds.wall


Repeat = dict[str, Run]
"""The runs of one repeat by arm, no arm missing."""


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """CPUs and bytes that something holds, whether it uses them or not."""

    cpus: float = 0.0
    memory_bytes: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of an hour; None if not set."""

    cpu_hour: float | None = None
    gib_hour: float | None = None

    @property
    def known(self) -> bool:
        """Whether any price is set."""
        return self.cpu_hour is not None or self.gib_hour is not None


@dataclass(frozen=True, kw_only=True)
class Context:
    """Settings of the measurement that the results do not contain.

    `recipe` is the stack's, of repeat 1; `oversubscription` says in words what was oversubscribed, or is None.
    """

    recipe: Recipe
    target: str
    repeats: int
    arms: tuple[str, ...]
    """The arms of the measurement, by name."""
    curve: tuple[int, ...] = ()
    """Other numbers of workers that Ray was measured with."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why the other arms are not measured, by name."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The stack's that are not their defaults, as texts; no secret ones."""
    oversubscription: str | None = None
    worker_memory_bytes: float = 0.0
    ray_overhead: Reserved = field(default_factory=Reserved)
    """What a Ray run reserves beside its workers: head and submitter, on a cluster."""
    idle_ray: Reserved = field(default_factory=Reserved)
    """What Ray's pods reserve while the other arms run."""
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True)
class Measurement:
    """The repeats that have every arm, and what they were asked for."""

    context: Context
    repeats: Sequence[Repeat]
    of_curve: Sequence[Run] = ()
    """The subject's runs with other numbers of workers, which are made in turns with the others and are no arm's."""

    @property
    def recipe(self) -> Recipe:
        """The stack's, of repeat 1."""
        return self.context.recipe

    @property
    def workload(self) -> Workload:
        """The workload that was trained."""
        return named(self.recipe.workload)

    @cached_property
    def runs(self) -> list[Run]:
        """All runs that are compared."""
        return [run for repeat in self.repeats for run in repeat.values()]

    @property
    def arms(self) -> list[str]:
        """The arms that were measured, in the order in which they are shown."""
        return [name for name in ARMS if self.repeats and name in self.repeats[0]]

    def of(self, arm: str) -> list[Run]:
        """The runs of an arm, by repeat; none if it was not measured."""
        return [repeat[arm] for repeat in self.repeats if arm in repeat]

    @property
    def subject(self) -> str | None:
        """The arm that the question is about, where it was measured."""
        return next((arm.name for arm in with_role("subject") if arm.name in self.arms), None)

    @property
    def alternatives(self) -> list[str]:
        """The measured arms that one would use instead of the subject."""
        return [arm.name for arm in with_role("reference", "alternative") if arm.name in self.arms]

    @cached_property
    def common_score(self) -> float | None:
        """The score that every run reached, to which time to accuracy is measured; None if one has none."""
        reached = [best_score(run.result) for run in self.runs]
        present = [value for value in reached if value is not None]
        return min(present) if present and len(present) == len(reached) else None

    @property
    def target(self) -> Target | None:
        """The metric's target of a script's training, if any."""
        return self.workload.target(self.recipe)

    @property
    def unit(self) -> str:
        """The unit of work, in the plural: from the settings, else from the workload."""
        return str(getattr(self.recipe, "unit", "") or self.workload.unit)

    @property
    def has_whole_epochs(self) -> bool:
        """Whether runs count epochs; else each run as a whole counts as one."""
        return all(run.result.steps.whole_epochs for run in self.runs)

    def passes(self, number: int) -> str:
        """Return a number of epochs, or of whole runs, in words."""
        if self.has_whole_epochs:
            return counted(number, "epoch")
        return "the whole run" if number <= 1 else f"{number} times as many steps"

    @cached_property
    def epochs_trained(self) -> list[int]:
        """The numbers of epochs that runs ended with, ascending: several where some stopped early."""
        return sorted({run.result.epochs_completed for run in self.runs})


def best_score(result: TrainingResult) -> float | None:
    """Return the best epoch's score that training follows; None if no epoch has one."""
    return max((point.score for point in result.curve), default=None)


def why_absent(name: str, context: Context) -> str:
    """Return why an arm was not measured."""
    return context.absent.get(name) or f"{ARMS[name].switch or name} is off"
