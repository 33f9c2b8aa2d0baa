"""One run of one arm of a script: its command as it stands, observed, and what came of it as a result.

The command is the user's, and so are its processes; what they print goes to this run's log.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from training.contract import progress, provenance
from training.contract.arms import ARMS, RAYSTART
from training.contract.progress import Progress
from training.contract.provenance import Host
from training.contract.result import TrainingResult
from training.launch import foreign_command
from training.launch.entry import Request
from training.launch.environment import secrets_of, short_folder
from training.launch.foreign_command import MOST_PRINTED, End
from training.launch.usage import Usage
from training.machine import cgroup
from training.machine.command_line import rwi
from training.workloads.script import commands, left_files, plain, proving, ray_start, summary
from training.workloads.script.commands import ArmCommand
from training.workloads.script.detail import Artifact
from training.workloads.script.environment import measured_into, observed_by
from training.workloads.script.execution_site import Invocation, here
from training.workloads.script.plain import Proof
from training.workloads.script.printed import Printed
from training.workloads.script.recipe import ScriptRecipe, patterns, variables
from training.workloads.script.resolve import ResolvedScript, resolve, why_not


class ArmError(ValueError):
    """An arm that ended badly; the message says how, and stands below what the script printed."""


def launch(request: Request, arm: str) -> TrainingResult | None:
    """Run the arm and return its result; of ranks in pods, only rank 0 returns a result. Raise ScriptError,
    PythonError, ArmError or ApartError if the run fails."""
    assert isinstance(request.recipe, ScriptRecipe)  # noqa: S101 (the workload's own)
    place = here(request)
    recipe = place.recipe(request.recipe)
    resolved, folder, host = resolve(recipe, place.image), request.result.parent, provenance.host()
    if reason := why_not(recipe, arm, place.image):
        raise ArmError(f"a script has no arm {arm} here: {reason}")
    if reason := _missing(request, recipe, resolved, arm):
        raise ArmError(reason)
    # New ones: a Ray pod outlives a run, and the folder of a result that the user names may hold files of the user's
    own, storage = (Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder)) for name in ("observed", "storage"))
    command = place.command(resolved, storage, arm)
    needed, hidden = {**variables(recipe.environment), **place.secret}, {**place.secret, **secrets_of(os.environ)}
    proof = None
    if resolved.splits and (arm in plain.BY_PROOF or plain.comes_first(resolved.script)):
        proof = proving.proved(place, resolved, needed, hidden.values(), folder)
        command = command.within(proof.environment)
    if proof and arm in proof.left_out:
        _remove(own, storage)
        return _not_measured(request, resolved, command, host, proof) if place.gives_result else None
    Progress(folder).write("note", text=str(command))
    print(f"in {commands.folder(resolved.script)}: {command}", flush=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=short_folder()) as ray_folder:
        epochs = recipe.epochs if "{epochs}" in recipe.script_arguments else 0
        observer = observed_by(own, recipe.measure_steps)
        observer |= measured_into(folder / progress.NAME, epochs=epochs)
        invocation = Invocation(
            resolved=resolved,
            command=command,
            needed=needed,
            observer=observer,
            own_ray=Path(ray_folder),
            storage=request.storage,
        )
        environment = place.variables(invocation)
        printed = Printed(hidden)
        usage, killed, before = Usage(), cgroup.memory_kills(), left_files.look(commands.folder(resolved.script))
        end = foreign_command.run(
            command.command, str(commands.folder(resolved.script)), environment, place.cpus(command), printed.pass_on
        )
    try:
        if end.code and cgroup.memory_kills() > killed:
            raise ArmError(_without_memory(arm, place.memory_key, recipe.workers))
        try:
            _refuse_failure(end, printed, arm, resolved)
        except ArmError as error:
            if end.code and (workers := place.workers_without_memory()):
                raise ArmError(f"{error}\n{_workers_without_memory(workers)}") from None
            raise
        seen, start = place.seen(own), ray_start.read(own) if arm == RAYSTART.name else None
        kept = _kept(recipe, storage, request) if seen is not None else []
        proof = plain.but(proof, plain.not_proved(own))
    finally:
        _remove(storage)
    _remove(own)
    if seen is None:
        return None
    ended_run = summary.EndedRun(
        resolved,
        command,
        place.ended(end),
        tuple(seen),
        host,
        usage.throttled(),
        tuple(kept),
        tuple(left_files.since(before, commands.folder(resolved.script))),
        start,
        proof,
    )
    result = summary.result(ended_run)
    reasons = result.reasons | place.reasons()
    return replace(result, recipe=request.recipe.to_dict(), ray_head=place.head(), reasons=reasons)


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _missing(request: Request, recipe: ScriptRecipe, resolved: ResolvedScript, arm: str) -> str:
    """Return what an arm needs and does not have here; "" if it has everything."""
    if resolved.layer and arm in commands.BY_RAY and not resolved.layer.is_made:
        return f"{resolved.layer.words} is not there: `{rwi('try')}` and `{rwi('up')}` make it, a run does not"
    if recipe.artifacts and not request.storage:
        return "artifacts need --storage: a folder or an address, of this run alone"
    return ""


def _not_measured(
    request: Request, resolved: ResolvedScript, command: ArmCommand, host: Host, proof: Proof
) -> TrainingResult:
    """Return the result of an arm that is not run, because the proof says that its ranks cannot be measured."""
    print(f"not run: {proof.words}", flush=True)
    end = End(code=0, began=(now := time.time()), ended=now, left=0, processes=0)
    ended_run = summary.EndedRun(resolved, command, end, (), host, None, proof=proof)
    return replace(summary.result(ended_run), recipe=request.recipe.to_dict())


def _without_memory(arm: str, key: str, workers: int) -> str:
    """Return a message that names the memory setting to raise; the pod of `wide` has the memory of all workers."""
    limit, parts = cgroup.memory_limit(), workers if ARMS[arm].all_cpus else 1
    why = f"the system ended the script in the arm {arm}: it needs more memory than it may have (OOMKilled)"
    return _with_more(why, key if limit else "", limit or 0, parts)


def _workers_without_memory(workers: Mapping[str, int | None]) -> str:
    """Return a message that Ray's workers lacked memory, with the setting to raise. The pods of the workers outlive a
    run, so the process that was killed may be one of another run."""
    where, limit = ", ".join(sorted(workers)), min(filter(None, workers.values()), default=0)
    needed = f"in Ray's workers at {where}: a process needed more memory than they may have (OOMKilled)"
    return _with_more(f"{needed}, in this run or since the last that failed", "workerMemory" if limit else "", limit)


def _with_more(why: str, key: str, limit: int, parts: int = 1) -> str:
    """Return the message `why` with the command line that doubles the memory limit, if there is a limit."""
    if not key:
        return f"{why}; fewer workers, or a smaller batch, need less"
    more = f"pulumi config set {key} {2 * limit // parts // 2**20}Mi"
    return f"{why}, {limit // 2**20} MiB. To give it twice as much:\n  {more}"


def _kept(recipe: ScriptRecipe, folder: Path, request: Request) -> list[Artifact]:
    """Copy the artifacts from the script's own folder to storage, and return them."""
    if not recipe.artifacts:
        return []
    kept = left_files.keep(folder, patterns(recipe.artifacts), request.storage)
    if not kept:
        text = f"artifacts: nothing that the script left in {{storage}} matches {recipe.artifacts}"
        Progress(request.result.parent).write("note", text=text)
    return kept


def _refuse_failure(end: foreign_command.End, printed: Printed, arm: str, resolved: ResolvedScript) -> None:
    if printed.count > MOST_PRINTED:
        raise ArmError(
            f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended: a measurement would time its printing"
        )
    if end.processes > foreign_command.MOST_PROCESSES:
        raise ArmError(f"it started more than {foreign_command.MOST_PROCESSES} processes, and was ended")
    if end.code:
        how = f"exit code {end.code}" if end.code > 0 else f"signal {-end.code}"
        helps = (
            resolved.where_to_install(printed.missing_module)
            if printed.missing_module
            else f"`{rwi('try')}` with the same script runs some steps of every arm and says what usually helps"
        )
        raise ArmError(f"the script ended with {how} in the arm {arm}; its last lines are above. {helps}")
