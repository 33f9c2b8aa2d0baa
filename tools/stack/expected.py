"""Estimates how long a run of each arm takes: from earlier runs of the stack, or from `make try`."""

from __future__ import annotations

from collections.abc import Mapping

from infra import estimate, run_history
from tools.stack import settings as stack_settings


def seconds_of_arms(stack: str, overrides: Mapping[str, str]) -> dict[str, float]:
    """Return a run's mean seconds by arm (`ray-w4` in a workers' curve), of arms with known runs. Raises ToolError."""
    settings = stack_settings.load(stack, overrides)
    wanted_runs = estimate.wanted(settings)
    known = run_history.known(settings, wanted_runs).runs
    runs = {side: estimate.runs_of(side, wanted_runs, known) for side in wanted_runs.sides}
    own = wanted_runs.recipe.workers
    return {
        side.arm if side.workers == own else f"{side.arm}-w{side.workers}": sum(run.wall for run in timed) / len(timed)
        for side, timed in runs.items()
        if timed
    }
