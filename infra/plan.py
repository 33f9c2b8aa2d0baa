"""Which runs a measurement has, in which order, and what each depends on. Pure: knows nothing of Pulumi or of processes.

A run carries two hashes. `own_key` covers what can change this run alone; `measurement` covers what can change any run of
the comparison. How often, how long and beside which other arms a run is made is in neither: changing that repeats nothing.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training import provenance
from training.config import ARMS, Recipe, canonical

if TYPE_CHECKING:
    from infra.settings import Settings


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run of one arm."""

    name: str
    """Arm and repeat, as `ray-2`: the resource's name and the beginning of its folder's."""
    arm: str
    repeat: int
    """From 1."""
    recipe: Recipe
    """With this repeat's seed."""
    own_key: str
    measurement: str


def plan_runs(settings: "Settings") -> tuple[RunPlan, ...]:
    """The runs in the order in which they are made: every arm once, then every arm again."""
    context = _context(settings)
    measurement = _measurement(settings, context)
    arms = [arm for arm in ARMS if settings.native_arm or arm != "native"]
    return tuple(
        _plan_run(settings, arm, repeat, context, measurement)
        for repeat in range(1, settings.repeats + 1)
        for arm in arms
    )


def _plan_run(settings: "Settings", arm: str, repeat: int, context: dict[str, Any], measurement: str) -> RunPlan:
    recipe = replace(settings.recipe, seed=settings.recipe.seed + repeat - 1)
    own: dict[str, Any] = context | {"recipe": recipe.for_arm(arm), "code": provenance.code_hash(arm)}
    if arm == "ray":
        own |= {"rayDashboard": settings.ray_dashboard}
    return RunPlan(
        name=f"{arm}-{repeat}", arm=arm, repeat=repeat, recipe=recipe, own_key=_hash(own), measurement=measurement
    )


def _measurement(settings: "Settings", context: dict[str, Any]) -> str:
    """All arms' code, whichever arms run: switching `nativeArm` adds runs and repeats none."""
    return _hash(
        context
        | {
            "recipe": settings.recipe.to_dict(),
            "code": {arm: provenance.code_hash(arm) for arm in ARMS},
            "rayDashboard": settings.ray_dashboard,
        }
    )


def _context(settings: "Settings") -> dict[str, Any]:
    """What every run shares. The host is part of it on `local` alone: elsewhere the program's machine trains nothing."""
    return {
        "dependencies": provenance.dependencies_hash(),
        "host": provenance.host().fingerprint() if settings.target == "local" else None,
        "datasetFiles": provenance.files_hash(Path(settings.dataset_path)) if settings.dataset_path else None,
    }


def _hash(parts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(parts).encode()).hexdigest()
