"""Proves, in a try, what ranks of a plain script do: in the script's own Python, as an arm is run, and in no clock."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.tryout import run_arm
from tools.tryout.request import Request
from training.workloads.script import commands, plain
from training.workloads.script.commands import ArmCommand
from training.workloads.script.plain import Proof
from training.workloads.script.recognise import Script

NOT_OBSERVED = run_arm.Changed(variables={"PYTHONPATH": "", "TRAINING_OBSERVE": ""})


def prove(script: Script, command: ArmCommand, request: Request, folder: Path) -> Proof:
    """Run the proof, and leave its plan in the folder."""
    limited = replace(request, limit_seconds=plain.PROOF_SECONDS + plain.START_SECONDS)
    run_arm.run(command, limited, folder, commands.folder(script), NOT_OBSERVED)
    proof = plain.proof_of(outcome(folder), script)
    (folder / plain.PLAN).write_text(json.dumps(proof.plan), encoding="utf-8")
    return proof


def outcome(folder: Path) -> Mapping[str, Any] | None:
    """Return what a proof wrote; None if it came to no end."""
    try:
        written: dict[str, Any] = json.loads((folder / plain.OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return written


def after(proof: Proof | None, arms: Sequence[ArmCommand]) -> list[ArmCommand]:
    """Return the arms that are run after a proof, the others absent; without one no ranks are."""
    left_out = plain.OF_RANKS if proof is None else proof.left_out
    why = "nothing was proved of its ranks" if proof is None else proof.words
    return [ArmCommand(arm=arm.arm, absent=why) if arm.arm in left_out else arm for arm in arms]
