"""Plans the runs of a measurement: their order, and what each depends on. Pure: no Pulumi and no processes.

A run carries two hashes. `own_key` covers what can change this run alone; `measurement` covers what can change any run
of the comparison, and which arms it has. How often and how long a run executes is in neither: changing that repeats
nothing.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from compare.measurement import Reserved
from infra.settings.settings import Settings
from training.contract import provenance, workload
from training.contract.arms import ARMS, RAY
from training.contract.recipe import Recipe, canonical
from training.contract.workload import Installed
from training.launch import environment

T = TypeVar("T")
_DIGITS = 12
"""The digits of a measurement's hash in the name of its folder in storage."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run of one arm."""

    name: str
    """Arm and repeat, as `ray-2`, and `ray-w1-2` of the workers' curve.

    The resource's name, and the beginning of its folder's.
    """
    arm: str
    repeat: int
    """The repeat, counted from 1."""
    recipe: Recipe
    """The recipe with this repeat's seed."""
    own_key: str
    measurement: str


class Declared(Protocol):
    """The declarations of a place, as far as they determine runs."""

    def of_run(self, plan: RunPlan) -> Mapping[str, Any]:
        """Return everything in the declaration of a run that can change it."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a place is, and what it holds, before anything runs there."""

    trains_here: bool = False
    """Whether runs are processes of this machine."""
    installed: Installed = None
    """Versions by package of the pods' image; None if runs are on this machine."""
    machines: Mapping[str, Any] | None = None
    """What is known of other machines before they exist; None if there are none."""
    pods: Declared | None = None
    """What is declared of the runs; None if the plan alone determines them."""
    ray_overhead: Reserved = field(default_factory=Reserved)
    """What a Ray run holds in addition to its workers."""
    idle_ray: Reserved = field(default_factory=Reserved)
    """What Ray holds while other arms run."""
    workers_gone_seconds: float | None = None
    """Seconds within which Ray's workers are gone after a Ray run; None if they stay."""


def plan_runs(settings: Settings, site: Site) -> tuple[RunPlan, ...]:
    """Return the runs in the order of execution: every arm once, then every arm again in another order.

    With `repeats auto` those of as many repeats as there may be; `infra.repeats` chooses among them.
    """
    sides = [
        *((arm, settings.recipe.workers) for arm in settings.arms),
        *((RAY.name, n) for n in settings.workers_curve),
    ]
    repeats = range(1, settings.run.repeats.most + 1)
    drafts = [_draft(settings, *side, repeat) for repeat in repeats for side in in_turn(sides, repeat)]
    context = {"datasetFiles": _data(settings)} | _context(settings, site)
    code = {arm: provenance.code_hash(arm, settings.recipe.workload) for arm in settings.arms}
    parts = _parts(settings, site, drafts, code)
    measurement = _hash(context | {"arms": parts[: len(sides)]})  # of the first repeat: of all arms, not how often
    return tuple(
        replace(draft, own_key=_hash(context | own), measurement=measurement)
        for draft, own in zip(drafts, parts, strict=True)
    )


def storage_of(settings: Settings, plan: RunPlan) -> str:
    """Return the address of a measurement's folder in storage, in which each run has its own; "" without storage."""
    if settings.storage is None:
        return ""
    return folder_of(settings.storage.address, settings.stack, plan)


def folder_of(storage: str, stack: str, plan: RunPlan) -> str:
    """Return the folder of a stack's measurement, in storage at that address."""
    return f"{storage}/{stack}/{plan.measurement[:_DIGITS]}"


def in_turn(arms: Sequence[T], repeat: int) -> list[T]:
    """Return the arms in the order of this repeat: over as many repeats as there are arms, each is first once, and last
    once.

    And where their number is even, each follows each other one once: machines drift, and warm up. The rows of a
    Williams square: E. J. Williams, Australian Journal of Scientific Research 2 (1949), 149.
    """
    count = len(arms)
    zigzag = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(count)]
    return [arms[(repeat - 1 + offset) % count] for offset in zigzag]


def _draft(settings: Settings, arm: str, workers: int, repeat: int) -> RunPlan:
    """Return a run without its hashes."""
    recipe = replace(settings.recipe, workers=workers, seed=settings.recipe.seed + repeat - 1)
    of_curve = "" if workers == settings.recipe.workers else f"w{workers}-"
    return RunPlan(name=f"{arm}-{of_curve}{repeat}", arm=arm, repeat=repeat, recipe=recipe, own_key="", measurement="")


def _parts(settings: Settings, site: Site, drafts: Sequence[RunPlan], code: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what determines each run in addition to what all runs share."""
    return [
        {
            "arm": draft.arm,
            "recipe": ARMS[draft.arm].settings(draft.recipe),
            "code": code[draft.arm],
            "rayDashboard": settings.ray_dashboard if ARMS[draft.arm].start == "ray" else None,
            "pods": site.pods.of_run(draft) if site.pods else None,
        }
        for draft in drafts
    ]


def _context(settings: Settings, site: Site) -> dict[str, Any]:
    """Return what all runs share. It has the host only if it trains: elsewhere the program's machine runs nothing."""
    trained = workload.named(settings.recipe.workload)
    return {
        "environment": environment.steering(os.environ) if site.trains_here else None,
        "dependencies": provenance.dependencies_hash(trained.packages) if trained.packages else None,
        "inputs": trained.inputs(settings.recipe, site.installed),
        "secretEnvironment": settings.secret_digest,
        "host": provenance.host().fingerprint() if site.trains_here else None,
        "machines": site.machines,
        **({"storage": settings.storage.identity()} if settings.storage else {}),
    }


def _data(settings: Settings) -> str | None:
    """Return what identifies the data: its address in storage, because hashing it would take minutes; here its files'
    hash."""
    if settings.data_in_storage or not settings.dataset_path:
        return settings.dataset_path
    return provenance.files_hash(Path(settings.dataset_path))


def _hash(parts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(parts).encode()).hexdigest()
