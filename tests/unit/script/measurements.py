"""Runs of a script, and their comparison, made of what was seen of its ranks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from compare.measurement import Run
from tests.unit.results import quiet_machine
from training.contract import provenance
from training.contract.result import TrainingResult
from training.launch.foreign_command import End
from training.workloads.script import resolve, summary
from training.workloads.script.observations import Observation
from training.workloads.script.ray_start import RayStart
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript

hash_of_folders = cache(resolve.hash_of_folders)
EPOCHS = [[0, True], [4, True], [8, True]]
"""Passes of three epochs of four steps, each to its end."""


def result_of(
    script: Script,
    recipe: ScriptRecipe,
    arm: str,
    *,
    seen: Sequence[Observation],
    wall: float,
    cpus: int = 4,
    **more: Any,
) -> TrainingResult:
    """Return the result of a run that took so many seconds on a quiet machine, and of which this was seen."""
    asked = ResolvedScript(recipe=recipe, script=script, python="python", versions={"torch": "2.15", "ray": "2.60"})
    host = replace(provenance.host(), cpus_allowed=cpus, cpu_quota=None)
    end = End(code=0, began=100.0, ended=100.0 + wall, left=0, processes=1)
    with pytest.MonkeyPatch.context() as patch:  # no test of these changes the observer, and hashing it takes longest
        patch.setattr(resolve, "hash_of_folders", hash_of_folders)
        ended = summary.EndedRun(asked, asked.arms({})[arm], end, tuple(seen), host, 0.0, **more)
        return replace(summary.result(ended), machine=quiet_machine(wall))


def run_of(script: Script, recipe: ScriptRecipe, arm: str, repeat: int, **more: Any) -> Run:
    """Return such a run of a repeat, whose seed is the repeat's number."""
    return Run(f"{arm}-{repeat}", repeat, result_of(script, replace(recipe, seed=repeat), arm, **more))


def start_of(arm: str, import_seconds: float = 2.0) -> RayStart | None:
    """Return what a start of Ray without a training says of itself; other arms say nothing."""
    return RayStart(import_seconds=import_seconds, trainer="torch") if arm == "raystart" else None
