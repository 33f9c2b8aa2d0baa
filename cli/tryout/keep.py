"""Stores what each arm of `rwi try` took, by phases, for estimates; not --env, whose values are often secret."""

import hashlib
import json
from collections.abc import Mapping

from cli.setup.project import STATE
from cli.tryout.request import Request
from cli.tryout.run_arm import Outcome
from cli.tryout.show import start_seconds
from training.contract import timed
from training.contract.codec import write_whole
from training.contract.recipe import canonical
from training.contract.timed import Timed
from training.workloads.script.facts import ArmFacts
from training.workloads.script.recipe import ScriptRecipe

FOLDER = STATE / "tried"


def keep(request: Request, seen: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome]) -> None:
    """Write the runs of a try to a file, in place of that of an earlier try with equal script, arguments and workers.
    An arm that is not in `seen` showed no steps, so it was run to its end."""
    recipe = ScriptRecipe(
        script=request.keys["script"],
        script_arguments=request.keys.get("scriptArguments", ""),
        script_kind=request.kind,
        workers=request.workers,
        epochs=1,
        measure_steps=request.steps,
    ).to_dict()
    del recipe["environment"]
    runs = [timed.to_dict(_timed(recipe, seen.get(name), outcome)) for name, outcome in outcomes.items()]
    same = {key: value for key, value in recipe.items() if key != "measureSteps"}
    name = hashlib.sha256(canonical(same).encode()).hexdigest()[:16]
    write_whole(FOLDER / f"{name}.json", json.dumps(runs, indent=1) + "\n")


def _timed(recipe: Mapping[str, object], facts: ArmFacts | None, outcome: Outcome) -> Timed:
    return Timed(
        arm=outcome.arm,
        recipe=recipe,
        began=outcome.end["began"],
        wall=outcome.seconds,
        startup=start_seconds(outcome) if facts else 0.0,
        step=facts.step_seconds if facts else None,
        steps=facts.steps if facts else 0,
        between=0.0,
        per_epoch=facts.steps_per_epoch if facts else None,
        is_whole=not any(rank.ended_early for rank in outcome.seen),
    )
