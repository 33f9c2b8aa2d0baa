"""Proves, in a try, what ranks of a plain script do: in the script's own Python, as an arm is run, and in no clock."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.tryout import run_arm
from tools.tryout.request import Request
from training.workloads.script import commands, plain, proving, resolve
from training.workloads.script.commands import ArmCommand
from training.workloads.script.plain import Proof
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script

NOT_OBSERVED = run_arm.Changed(variables={"PYTHONPATH": "", "TRAINING_OBSERVE": ""})


def prove(script: Script, command: ArmCommand, request: Request, folder: Path) -> Proof:
    """Run the proof, leave its plan in the folder, and keep its outcome for a measurement."""
    limited = replace(request, limit_seconds=plain.PROOF_SECONDS + plain.START_SECONDS)
    run_arm.run(command, limited, folder, commands.folder(script), NOT_OBSERVED)
    outcome = proving.read(folder / plain.OUTCOME) or plain.NO_OUTCOME
    proving.keep(_key(request), outcome)
    proof = plain.proof_of(outcome, script)
    (folder / plain.PLAN).write_text(json.dumps(proof.plan), encoding="utf-8")
    return proof


def _key(request: Request) -> str:
    """Return the name under which a measurement of the same looks for the outcome."""
    recipe = ScriptRecipe(
        script=str(request.script),
        script_arguments=request.keys.get("scriptArguments", ""),
        script_kind=request.kind,
        python=request.python,
        workers=request.workers,
    )
    return resolve.resolve(recipe).proof_key(request.variables)


def after(proof: Proof, arms: Sequence[ArmCommand]) -> list[ArmCommand]:
    """Return the arms, those absent that are not run after a proof."""
    return [ArmCommand(arm=arm.arm, absent=proof.words) if arm.arm in proof.left_out else arm for arm in arms]
