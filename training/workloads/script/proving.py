"""Proves, before a run of a plain script and outside its clock, what ranks do; once for all runs of a measurement."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from training.contract.codec import write_whole
from training.contract.provenance import PROJECT
from training.launch import foreign_command
from training.workloads.script import commands, plain
from training.workloads.script.environment import variables_of
from training.workloads.script.plain import Proof
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript

FOLDER = PROJECT / ".state" / "proved"
"""Outcomes by `ResolvedScript.proof_key`: the same script, arguments and environment are not proved twice."""


def proved(resolved: ResolvedScript, needed: Mapping[str, str], storage: Path, folder: Path) -> Proof:
    """Return what ranks of the script do, and leave their plan in the folder.

    Args:
        resolved: A script whose ranks are measured (`ResolvedScript.splits`).
        needed: Variables that the user names.
        storage: The folder that {storage} stands for.
        folder: The run's own folder.
    """
    key = resolved.proof_key(needed)
    outcome = read(FOLDER / f"{key}.json")
    if outcome is None:
        outcome = _run(resolved, needed, storage, folder) or plain.NO_OUTCOME
        keep(key, outcome)
    return with_plan(outcome, resolved.script, folder)


def with_plan(outcome: Mapping[str, Any], script: Script, folder: Path) -> Proof:
    """Return what an outcome says, and leave the plan of its ranks in a folder."""
    proof = plain.proof_of(outcome, script)
    (folder / plain.PLAN).write_text(json.dumps(proof.plan), encoding="utf-8")
    return proof


def _run(resolved: ResolvedScript, needed: Mapping[str, str], storage: Path, folder: Path) -> Mapping[str, Any] | None:
    file = folder / plain.OUTCOME
    command = resolved.proof(storage, file)
    variables = variables_of(command, needed, folder)
    where = str(commands.folder(resolved.script))
    print(f"in {where}: {command}", flush=True)
    foreign_command.run(command.command, where, variables, min(command.cpus, os.cpu_count() or 1))
    outcome = read(file)
    with suppress(OSError):
        file.unlink()
    return outcome


def read(file: Path) -> Mapping[str, Any] | None:
    """Return the outcome in a file; None if there is none."""
    try:
        outcome: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return outcome


def keep(key: str, outcome: Mapping[str, Any]) -> None:
    """Keep an outcome for later runs."""
    write_whole(FOLDER / f"{key}.json", json.dumps(outcome) + "\n")
