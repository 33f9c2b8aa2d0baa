"""Proves, in a try, what ranks of a plain script do, and its smallest port: in its own Python, as an arm is run, and in
no clock."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cli.tryout import run_arm
from cli.tryout.request import Request
from training.contract.provenance import PROJECT
from training.machine.ports import held_ports
from training.workloads.script import commands, plain, proving, python_environment, resolve
from training.workloads.script.commands import ArmCommand, WithRay
from training.workloads.script.plain import Proof
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script

PORTS = PROJECT / ".state" / "ports"
NOT_OBSERVED = run_arm.Changed(variables={"PYTHONPATH": "", "TRAINING_OBSERVE": ""})


def arms(
    script: Script, request: Request, folder: Path, ray: WithRay, epochs: int = 1
) -> tuple[list[ArmCommand], ArmCommand | None]:
    """Return the arms, and the command of the proof, or None if there is nothing to prove. A proof checks that a plain
    script's ranks do the work of one process."""
    splits = request.workers > 1 and plain.mechanism(script) is not None
    with held_ports(1) as (port,):
        plan = str(folder / plain.PLAN) if splits else ""
        sizes = commands.Sizes(workers=request.workers, master_port=port, plan=plan)
    storage = {"storage": str(folder / "storage")}
    (folder / "storage").mkdir()
    proof = _proof(script, request, sizes, storage, folder) if splits else None
    return commands.commands(script, request.python, sizes, {"seed": "1", "epochs": str(epochs), **storage}, ray), proof


def _proof(
    script: Script, request: Request, sizes: commands.Sizes, storage: Mapping[str, str], folder: Path
) -> ArmCommand:
    """Return the command of the proof. It has the values of a measurement and not those of a try, so that a measurement
    can use its outcome."""
    recipe = _recipe(request)
    values = {"seed": str(recipe.seed), "epochs": str(recipe.epochs), **storage}
    return commands.proof(script, request.python, sizes, values, folder / plain.OUTCOME)


def known(script: Script, command: ArmCommand, request: Request, folder: Path) -> Proof:
    """Return the proof of the same script that an earlier call kept, and write its plan into the folder; if there is
    none, prove it now."""
    outcome = proving.kept(_key(request))
    return proving.with_plan(outcome, script, folder) if outcome else prove(script, command, request, folder)


def prove(script: Script, command: ArmCommand, request: Request, folder: Path) -> Proof:
    """Run the proof, write its plan into the folder, and keep its outcome for a measurement. Return the proof."""
    limited = replace(request, limit_seconds=plain.PROOF_SECONDS + plain.START_SECONDS)
    ran = run_arm.run(command, limited, folder, commands.folder(script), NOT_OBSERVED)
    without = plain.NO_OUTCOME if ran.hung else plain.without_outcome(ran.code, ran.printed)
    outcome = proving.taken(folder / plain.OUTCOME, _secrets(request), without)
    proving.keep(_key(request), outcome)
    return proving.with_plan(outcome, script, folder)


def _secrets(request: Request) -> list[str]:
    return [request.variables[name] for name in request.secrets]


def _recipe(request: Request) -> ScriptRecipe:
    """Return the recipe of a measurement of the same script."""
    return ScriptRecipe(
        script=str(request.script),
        script_arguments=request.keys.get("scriptArguments", ""),
        script_kind=request.kind,
        python=request.python,
        workers=request.workers,
    )


def _key(request: Request) -> str:
    """Return the name under which a measurement of the same script looks for the proof's outcome."""
    return resolve.resolve(_recipe(request)).proof_key(request.variables)


def before_porting(proof: Proof, script: Script, command: ArmCommand, request: Request, folder: Path) -> str:
    """Return the outcome of the ranks' proof, and what to write so that the script trains in ranks: the smallest port,
    which was run and is kept for a measurement, or general advice. `command` is the proof's."""
    if plain.framework(script) == "torch":
        outcome = _port(script, command, request, folder)
        proving.keep_port(_key(request), outcome)
        proof = replace(proof, port=outcome)
    write, diff = plain.to_write(proof, script, request.workers)
    lines = [f"{arm}: {plain.ranks_in_words(arm, proof, request.workers)}" for arm in plain.OF_RANKS]
    lines.append(f"A measurement needs no change of the script. To distribute it yourself you would write: {write}")
    file = port_of(script)
    file.unlink(missing_ok=True)  # that of an earlier try is of another text by now
    if proof.port and diff:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(diff.encode(proof.port["encoding"]))
        lines.append(f"  as a diff: {python_environment.near(file)}")
    return "\n".join(lines)


def port_of(script: Script) -> Path:
    """Return the path of a script's port, with a hash, since scripts of different folders may have one name."""
    path = script.path.resolve()
    return PORTS / f"{path.stem}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}.diff"


def _port(script: Script, command: ArmCommand, request: Request, folder: Path) -> Mapping[str, str]:
    """Look for the smallest port (change of the script with which it trains in ranks). Return the outcome."""
    changed = {str(folder / plain.OUTCOME): str(folder / "port.json"), "prove": "port"}
    ours = command.command.index("--")  # the script's own arguments follow
    of_port = (*(changed.get(word, word) for word in command.command[:ours]), *command.command[ours:])
    limited = replace(request, limit_seconds=plain.PROOF_SECONDS + plain.START_SECONDS)
    ported = replace(command, arm="port", command=of_port)
    run_arm.run(ported, limited, folder, commands.folder(script), NOT_OBSERVED)
    nothing = {"outcome": "none", "reason": f"none within {plain.PROOF_SECONDS} s"}
    return proving.taken(folder / "port.json", _secrets(request), nothing)


def after(proof: Proof, arms: Sequence[ArmCommand]) -> list[ArmCommand]:
    """Return the arms to run after a proof. Arms that the proof excluded are marked as absent."""
    return [
        ArmCommand(arm=arm.arm, absent=proof.words) if arm.arm in proof.left_out else arm.within(proof.environment)
        for arm in arms
    ]
