"""Durations of a measured run by its parts, from which later runs are predicted. Standard library only.

`infra.estimate` puts them together, from results of earlier runs and what `./rwi try` keeps. Not here: the estimate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training.contract.arms import ARMS
from training.contract.recipe import Recipe, camel
from training.contract.result import TrainingResult
from training.contract.workload import named

OF_A_REPEAT = ("seed",)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One run that ended well."""

    arm: str
    recipe: Mapping[str, Any]
    """The recipe with camelCase keys; a key that is missing may have had any value."""
    began: float
    """Seconds since the epoch."""
    wall: float
    startup: float
    """Time to the end of the first step; 0 where no step was seen."""
    step: float | None
    """A settled one; None where none was timed."""
    steps: int
    between: float
    """Between epochs, of the whole run: validation, reports, checkpoints."""
    per_epoch: int | None
    """Steps; None where the end of an epoch is not known."""
    is_whole: bool
    """True if it ended by itself, and not after the number of steps that was set."""

    @property
    def ended(self) -> float:
        """Return seconds since the epoch."""
        return self.began + self.wall


def of_result(result: TrainingResult, began: float) -> Timed:
    """Return the durations of a measured run."""
    steps, seconds, wanted = result.steps, result.seconds, result.recipe.get("measureSteps") or 0
    steps_done = steps.per_epoch * result.epochs_completed
    return Timed(
        arm=result.arm,
        recipe=result.recipe,
        began=began,
        wall=seconds.wall - seconds.probe,
        startup=seconds.startup or 0.0,
        step=seconds.train / steps.timed if seconds.train and steps.timed else None,
        steps=steps_done,
        between=sum(part or 0.0 for part in (seconds.validation, seconds.report, seconds.checkpoint)),
        per_epoch=steps.per_epoch if steps.whole_epochs and steps.per_epoch else None,
        is_whole=not wanted or steps_done < wanted,
    )


def scaled(timed: Timed, recipe: Recipe) -> Timed | None:
    """Predict a run of this recipe from one that differs at most in its number of steps; None if it can't be
    predicted."""
    if differences(timed, recipe):
        return None
    steps = _steps_of(timed, recipe)
    if steps is None:
        return None
    if steps == timed.steps:
        return timed
    if timed.step is None or not timed.steps:
        return None
    between = timed.between * steps / timed.steps
    wall = timed.wall + (steps - timed.steps) * timed.step + between - timed.between
    return replace(timed, wall=wall, steps=steps, between=between)


def differences(timed: Timed, recipe: Recipe) -> list[str]:
    """Return the settings by which such a run takes another time than this one, beside its number of steps."""
    free = {named(recipe.workload).passes_key, "measureSteps", *OF_A_REPEAT, *ARMS[timed.arm].ignores}
    free |= {key for key, field in recipe.settings().items() if not field.metadata["decides"]}
    wanted = recipe.to_dict()
    return [key for key, value in timed.recipe.items() if key not in free and wanted.get(key) != value]


def _steps_of(timed: Timed, recipe: Recipe) -> int | None:
    """Return the number of steps of such a run; None if only its end would show it."""
    wanted, whole = recipe.to_dict(), _whole_steps(timed, recipe)
    enough: int = wanted.get("measureSteps") or 0
    return whole if not enough else enough if whole is None else min(enough, whole)


def _whole_steps(timed: Timed, recipe: Recipe) -> int | None:
    """Return the number of steps of a run that ends by itself; None if it is not known."""
    workload, wanted = named(recipe.workload), recipe.to_dict()
    key = workload.passes_key
    decides = workload.has_key_for_passes(wanted) and key not in ARMS[timed.arm].ignores
    passes: int = wanted[key]
    if timed.is_whole and (passes == timed.recipe[key] or not decides):
        return timed.steps
    return passes * timed.per_epoch if decides and timed.per_epoch else None


def to_dict(timed: Timed) -> dict[str, Any]:
    """Return plain JSON data."""
    return {camel(name): value for name, value in vars(timed).items()}


def from_dict(data: Mapping[str, Any]) -> Timed:
    """Read a `Timed` from its data. Raises KeyError or TypeError for other data."""
    return Timed(**{name: data[camel(name)] for name in Timed.__dataclass_fields__})
