"""Which runs a measurement has, in which order, and what each depends on. Pure: it knows no Pulumi and no processes.

A run carries two hashes. `own_key` covers what can change this run alone; `measurement` covers what can change any run
of the comparison. How often, how long and beside which other arms a run is made is in neither: changing that repeats
nothing.
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
    code = {arm: provenance.code_hash(arm) for arm in ARMS}
    measurement = _hash(context | {"recipe": settings.recipe.to_dict(), "code": code})  # all arms', whichever run
    arms = [arm for arm in ARMS if settings.native_arm or arm != "native"]
    plans = []
    for repeat in range(1, settings.repeats + 1):
        recipe = replace(settings.recipe, seed=settings.recipe.seed + repeat - 1)
        for arm in arms:
            own = context | {"recipe": recipe.for_arm(arm), "code": code[arm]}
            if arm != "ray":
                del own["rayDashboard"]
            name, own_key = f"{arm}-{repeat}", _hash(own)
            plans.append(
                RunPlan(name=name, arm=arm, repeat=repeat, recipe=recipe, own_key=own_key, measurement=measurement)
            )
    return tuple(plans)


def _context(settings: "Settings") -> dict[str, Any]:
    """What every run shares. The host is in it on `local` alone: elsewhere the program's machine trains nothing."""
    return {
        "dependencies": provenance.dependencies_hash(),
        "host": provenance.host().fingerprint() if settings.target == "local" else None,
        "datasetFiles": provenance.files_hash(Path(settings.dataset_path)) if settings.dataset_path else None,
        "rayDashboard": settings.ray_dashboard,
        **_image(settings),
    }


def _image(settings: "Settings") -> dict[str, str]:
    """The image that the user names, or the base of one that is built here: what is put on it, other hashes cover."""
    if settings.cluster is None:
        return {}
    named = settings.cluster.image if settings.target == "kubernetes" else None
    return {"image": named} if named else {"baseImage": settings.cluster.base_image}


def _hash(parts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(parts).encode()).hexdigest()
