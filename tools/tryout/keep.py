"""What `make try` leaves for `make plan`: what each arm took, by its parts. No variable of ENV, which may be secret."""

import hashlib
import json
from collections.abc import Mapping

from tools.setup.project import STATE
from tools.tryout.request import Request
from tools.tryout.run_arm import Outcome
from tools.tryout.show import start_seconds
from training.contract import timed
from training.contract.recipe import canonical
from training.contract.result import write_whole
from training.contract.timed import Timed
from training.workloads.script.facts import ArmFacts
from training.workloads.script.recipe import ScriptRecipe

FOLDER = STATE / "tried"


def keep(asked: Request, seen: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome]) -> None:
    """Write it, in the place of what an earlier call with the same script, arguments and workers left."""
    recipe = ScriptRecipe(
        script=asked.keys["script"],
        script_arguments=asked.keys.get("scriptArguments", ""),
        script_kind=asked.kind,
        workers=asked.workers,
        epochs=1,
        measure_steps=asked.steps,
    ).to_dict()
    del recipe["environment"]
    runs = [timed.to_dict(_timed(recipe, seen[name], outcomes[name])) for name in seen]
    same = {key: value for key, value in recipe.items() if key != "measureSteps"}
    name = hashlib.sha256(canonical(same).encode()).hexdigest()[:16]
    write_whole(FOLDER / f"{name}.json", json.dumps(runs, indent=1) + "\n")


def _timed(recipe: Mapping[str, object], facts: ArmFacts, outcome: Outcome) -> Timed:
    return Timed(
        arm=facts.arm,
        recipe=recipe,
        began=outcome.end["began"],
        wall=outcome.seconds,
        startup=start_seconds(outcome),
        step=facts.step_seconds,
        steps=facts.steps,
        between=0.0,
        per_epoch=facts.steps_per_epoch,
        is_whole=not any(one.ended_early for one in outcome.seen),
    )
