"""How long a run of each arm will probably take: from earlier runs of the stack, or from `make try`."""

from __future__ import annotations

from collections.abc import Mapping

from infra import estimate, run_history
from tools.stack import settings as stack_settings


def seconds_of_arms(stack: str, overrides: Mapping[str, str]) -> dict[str, float]:
    """By arm, of a workers' curve with its workers; without those of which nothing is known. Raises ToolError."""
    settings = stack_settings.load(stack, overrides)
    asked = estimate.wanted(settings)
    known = run_history.known(settings, asked).runs
    runs = {side: estimate.runs_of(side, asked, known) for side in asked.sides}
    own = asked.recipe.workers
    return {
        side.arm if side.workers == own else f"{side.arm}-w{side.workers}": sum(run.wall for run in timed) / len(timed)
        for side, timed in runs.items()
        if timed
    }
