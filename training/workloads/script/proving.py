"""Proves, before a run of a plain script and outside its clock, what ranks do; once for all runs of a measurement."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from training.contract.codec import write_whole
from training.contract.provenance import PROJECT
from training.launch import foreign_command
from training.workloads.script import commands, plain
from training.workloads.script.environment import variables_of
from training.workloads.script.plain import Proof
from training.workloads.script.printed import Secrets
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript

FOLDER = PROJECT / ".state" / "proved"
"""Outcomes by `ResolvedScript.proof_key`: the same script, arguments and environment are not proved twice."""
OF_A_MOMENT_SECONDS = 3600
"""Time for which an outcome counts that a full disk or a busy machine may have made: for the next runs of a
measurement, and not for ever."""


def proved(
    resolved: ResolvedScript, needed: Mapping[str, str], secrets: Iterable[str], storage: Path, folder: Path
) -> Proof:
    """Return what ranks of the script do, and leave their plan in the folder.

    Args:
        resolved: A script whose ranks are measured (`ResolvedScript.splits`).
        needed: Variables that the user names.
        secrets: Texts that are in no outcome, as values of these.
        storage: The folder that {storage} stands for.
        folder: The run's own folder.
    """
    key = resolved.proof_key(needed)
    outcome = kept(key)
    if outcome is None:
        _run(resolved, needed, storage, folder)
        outcome = taken(folder / plain.OUTCOME, secrets) or plain.NO_OUTCOME
        keep(key, outcome)
    return with_plan(outcome, resolved.script, folder)


def with_plan(outcome: Mapping[str, Any], script: Script, folder: Path) -> Proof:
    """Return what an outcome says, and leave the plan of its ranks in a folder."""
    proof = plain.proof_of(outcome, script)
    (folder / plain.PLAN).write_text(json.dumps(proof.plan), encoding="utf-8")
    return proof


def _run(resolved: ResolvedScript, needed: Mapping[str, str], storage: Path, folder: Path) -> None:
    command = resolved.proof(storage, folder / plain.OUTCOME)
    variables = variables_of(command, needed, folder)
    where = str(commands.folder(resolved.script))
    print(f"in {where}: {command}", flush=True)
    foreign_command.run(command.command, where, variables, min(command.cpus, os.cpu_count() or 1))


def taken(file: Path, secrets: Iterable[str]) -> Mapping[str, Any] | None:
    """Return the outcome in a file, which is removed, without these texts: the last lines of a script are in it."""
    outcome = read(file)
    with suppress(OSError):
        file.unlink()
    return None if outcome is None else _hidden(Secrets(secrets), outcome)


def _hidden(secrets: Secrets, content: Any) -> Any:
    if isinstance(content, str):
        return secrets.hidden_in(content.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    if isinstance(content, list):
        return [_hidden(secrets, each) for each in content]
    if isinstance(content, dict):
        return {name: _hidden(secrets, each) for name, each in content.items()}
    return content


def read(file: Path) -> Mapping[str, Any] | None:
    """Return the outcome in a file; None if there is none."""
    try:
        outcome: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return outcome


def kept(key: str) -> Mapping[str, Any] | None:
    """Return the outcome of an earlier run; None if there is none that still counts."""
    file = FOLDER / f"{key}.json"
    outcome = read(file)
    if outcome and plain.is_of_a_moment(outcome) and time.time() - file.stat().st_mtime > OF_A_MOMENT_SECONDS:
        return None
    return outcome


def keep(key: str, outcome: Mapping[str, Any]) -> None:
    """Keep an outcome for later runs."""
    write_whole(FOLDER / f"{key}.json", json.dumps(outcome) + "\n")
