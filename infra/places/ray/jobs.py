"""A run as a job of a Ray cluster: the files it sends, the CPUs it reserves, its command. Imports no Pulumi.

The project's own modules travel with each run: the cluster's image is not ours. They have a folder of their own next to
a script's files, because a script may have modules of the same names.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from infra.bundle import by_name, zipped
from infra.plan import RunPlan
from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT
from training.contract.recipe import Recipe, kebab
from training.contract.workload import Files, named
from training.launch.environment import BESIDE_SCRIPT
from training.launch.ray import job_entry, submit

ENTRY = "training.launch.ray.job_entry"
LOCK = PROJECT / "uv.lock"


@dataclass(frozen=True)
class Job:
    """A run in the form in which it is submitted as a Ray job."""

    package: bytes
    """A zip file with the folder in which the job starts."""
    command: tuple[str, ...]
    cpus: float
    """The number of CPUs that the job's own process reserves; 0 if Ray reserves CPUs for the workers instead."""


class Jobs:
    """What the runs of a measurement send as Ray jobs, which is part of the runs' hashes."""

    def of_run(self, plan: RunPlan) -> Mapping[str, Any]:
        """Return what the run's job gets in addition to the run's plan."""
        arm = ARMS[plan.arm]
        return {"cpus": cpus_of(plan.arm, plan.recipe), "modules": _digest(arm.name, plan.recipe.workload)}


def job(arm: str, recipe: Recipe, secret: Mapping[str, str], name: str) -> Job:
    """Return the job for a run with this name. Raise ValueError if the user's script cannot be sent."""
    files = named(recipe.workload).files(recipe)
    ours = BESIDE_SCRIPT if files else "."
    address = ["--address=auto"] if ARMS[arm].start == "ray" else []
    command = ("env", f"PYTHONPATH={ours}", "python", "-P", "-m", ENTRY, arm, *address, *flags(arm, recipe, files))
    packed = _package(arm, recipe.workload, ours, files, secret)
    return Job(submit.package_of_run(packed, name), command, cpus_of(arm, recipe))


def cpus_of(arm: str, recipe: Recipe) -> float:
    """Return the number of CPUs that the job of an arm reserves on a single node."""
    definition = ARMS[arm]
    return 0 if definition.start == "ray" else round(definition.processes(recipe) * definition.process_cpus(recipe), 3)


def flags(arm: str, recipe: Recipe, files: Files | None) -> list[str]:
    """Return the recipe's flags for the job, without the flags that the arm ignores."""
    ignored = tuple(f"{kebab(key)}=" for key in ARMS[arm].ignores)
    shown_recipe = replace(recipe, **files.recipe) if files else recipe
    return [flag for flag in shown_recipe.flags() if not flag.startswith(ignored)]


def modules(arm: str, workload: str) -> list[Path]:
    """Return the project's files that a run of the arm needs on the cluster."""
    trained = named(workload)
    by_path = {path for folder in trained.by_path for path in (PROJECT / folder).rglob("*.py")}
    imported = {*provenance.modules_of_run(arm, workload), *provenance.modules_of([ENTRY])}
    return sorted(imported | by_path | ({LOCK} if trained.packages else set()))


@cache
def _digest(arm: str, workload: str) -> str:
    total = hashlib.sha256()
    for path in modules(arm, workload):
        total.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def _package(arm: str, workload: str, ours: str, files: Files | None, secret: Mapping[str, str]) -> bytes:
    packed = zipped(by_name(modules(arm, workload), ours), to=files.content if files else b"")
    return zipped({job_entry.SECRET: json.dumps(dict(secret)).encode()}, to=packed, mode=0o600) if secret else packed
