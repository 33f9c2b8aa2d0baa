"""Plans the runs of a measurement: their order, and what each depends on. Pure: no Pulumi and no processes.

A run carries two hashes. `own_key` covers what can change this run; `measurement` covers what can change any run of the
comparison, and which arms it has. How many repeats there are, and how long a run may take, is in neither: changing that
repeats nothing.
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
"""The number of digits of the measurement's hash in the name of its folder in storage."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run of one arm."""

    name: str
    """The arm and the repeat, such as `ray-2`; on the workers' curve with the number of workers, such as `ray-w1-2`.

    It is the name of the run's resource, and the beginning of its folder's name.
    """
    arm: str
    repeat: int
    """The number of the repeat, counted from 1."""
    recipe: Recipe
    """The recipe with the seed of this repeat."""
    own_key: str
    measurement: str


class Declared(Protocol):
    """What a place declares, as far as it decides how a run executes."""

    def of_run(self, plan: RunPlan) -> Mapping[str, Any]:
        """Return everything in the declaration of a run that can change the run's result."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What is known about a place before anything runs there."""

    trains_here: bool = False
    """Whether runs are processes of this machine."""
    installed: Installed = None
    """The versions of the packages in the pods' image, by package; None if runs are on this machine."""
    machines: Mapping[str, Any] | None = None
    """What is known before a run about the machines that execute it; None if that is this machine."""
    pods: Declared | None = None
    """What the place declares for the runs; None if the plan alone determines the runs."""
    ray_overhead: Reserved = field(default_factory=Reserved)
    """The CPUs and memory that a Ray run reserves in addition to its workers."""
    idle_ray: Reserved = field(default_factory=Reserved)
    """The CPUs and memory that Ray reserves while other arms run."""
    workers_gone_seconds: float | None = None
    """The seconds within which Ray's workers are gone after a Ray run; None if the workers stay."""


def plan_runs(settings: Settings, site: Site) -> tuple[RunPlan, ...]:
    """Return the runs in the order of execution: every arm once, then every arm again in another order.

    With `repeats auto`, return the runs of the largest possible number of repeats, among which `infra.repeats` chooses.
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
    """Return the address of the measurement's folder in storage, with a folder for each run; empty without storage."""
    if settings.storage is None:
        return ""
    return folder_of(settings.storage.address, settings.stack, plan)


def folder_of(storage: str, stack: str, plan: RunPlan) -> str:
    """Return the folder of a stack's measurement in the storage at the address `storage`."""
    return f"{storage}/{stack}/{plan.measurement[:_DIGITS]}"


def in_turn(arms: Sequence[T], repeat: int) -> list[T]:
    """Return the arms in the order of this repeat. Over as many repeats as there are arms, each arm is first once and
    last once.

    If the number of arms is even, each arm also follows each other arm once. Both matter because machines warm up and
    drift. The orders are the rows of a Williams square: E. J. Williams, Australian Journal of Scientific Research 2
    (1949), 149.
    """
    count = len(arms)
    zigzag = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(count)]
    return [arms[(repeat - 1 + offset) % count] for offset in zigzag]


def _draft(settings: Settings, arm: str, workers: int, repeat: int) -> RunPlan:
    """Return the plan of a run without its hashes."""
    recipe = replace(settings.recipe, workers=workers, seed=settings.recipe.seed + repeat - 1)
    of_curve = "" if workers == settings.recipe.workers else f"w{workers}-"
    return RunPlan(name=f"{arm}-{of_curve}{repeat}", arm=arm, repeat=repeat, recipe=recipe, own_key="", measurement="")


def _parts(settings: Settings, site: Site, drafts: Sequence[RunPlan], code: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what determines each run, in addition to what all runs have in common."""
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
    """Return what all runs have in common. It contains this machine only if runs are executed on it."""
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
    """Return what identifies the data: the hash of files on this machine, or the address of data in storage, whose hash
    would take minutes; None if `datasetPath` is not set."""
    if settings.data_in_storage or not settings.dataset_path:
        return settings.dataset_path
    return provenance.files_hash(Path(settings.dataset_path))


def _hash(parts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(parts).encode()).hexdigest()
