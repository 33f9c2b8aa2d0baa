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
    """Durations of a run that succeeded."""

    arm: str
    recipe: Mapping[str, Any]
    """The recipe with camelCase keys; a key that is missing may have had any value."""
    began: float
    """Start of the run in seconds since the Unix epoch."""
    wall: float
    startup: float
    """Seconds to the first step; 0 if no step was seen."""
    step: float | None
    """Seconds of a step after warm-up; None if no step was timed."""
    steps: int
    between: float
    """Seconds between the steps of the epochs, over the whole run: validation, reports, checkpoints."""
    per_epoch: int | None
    """Steps of an epoch; None if the end of an epoch is not known."""
    is_whole: bool
    """True if the run ended by itself; False if it was ended after the number of steps that was set."""

    @property
    def ended(self) -> float:
        """Return the end of the run in seconds since the Unix epoch."""
        return self.began + self.wall


def of_result(result: TrainingResult, began: float) -> Timed:
    """Return the durations of a run from its result; `began` is its start in seconds since the Unix epoch."""
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
    """Return the durations of a run of this recipe, predicted from `timed`, whose recipe may differ only in the number
    of steps; None if they cannot be predicted."""
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
    """Return the settings, except the number of steps, by which a run of this recipe takes another time than
    `timed`."""
    free = {named(recipe.workload).passes_key, "measureSteps", *OF_A_REPEAT, *ARMS[timed.arm].ignores}
    free |= {key for key, field in recipe.settings().items() if not field.metadata["decides"]}
    wanted = recipe.to_dict()
    return [key for key, value in timed.recipe.items() if key not in free and wanted.get(key) != value]


def _steps_of(timed: Timed, recipe: Recipe) -> int | None:
    """Return the number of steps of a run of this recipe; None if only the end of the run would show it."""
    wanted, whole = recipe.to_dict(), _whole_steps(timed, recipe)
    enough: int = wanted.get("measureSteps") or 0
    return whole if not enough else enough if whole is None else min(enough, whole)


def _whole_steps(timed: Timed, recipe: Recipe) -> int | None:
    """Return the number of steps of a run of this recipe that is not ended early; None if it is not known."""
    workload, wanted = named(recipe.workload), recipe.to_dict()
    key = workload.passes_key
    decides = workload.has_key_for_passes(wanted) and key not in ARMS[timed.arm].ignores
    passes: int = wanted[key]
    if timed.is_whole and (passes == timed.recipe[key] or not decides):
        return timed.steps
    return passes * timed.per_epoch if decides and timed.per_epoch else None


def to_dict(timed: Timed) -> dict[str, Any]:
    """Return the durations as plain JSON data with camelCase keys."""
    return {camel(name): value for name, value in vars(timed).items()}


def from_dict(data: Mapping[str, Any]) -> Timed:
    """Return the `Timed` that data from `to_dict` describe. Raises KeyError or TypeError for other data."""
    return Timed(**{name: data[camel(name)] for name in Timed.__dataclass_fields__})
