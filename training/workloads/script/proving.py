"""Proves, before a run of a plain script and outside its clock, what ranks do; once for all runs that can share it."""

import json
import os
import select
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from training.contract.codec import write_whole
from training.contract.progress import Progress
from training.launch import foreign_command
from training.launch.environment import temporary_folder
from training.machine import cgroup
from training.workloads.script import commands, plain
from training.workloads.script.execution_site import Machine
from training.workloads.script.plain import Proof
from training.workloads.script.printed import Secrets
from training.workloads.script.recognise import Script
from training.workloads.script.resolve import ResolvedScript
from training.workloads.script.spread.reads import state

LOOK_SECONDS = 0.1
LEAST_FREE = 0.2
"""Share of a pod's memory that a proof leaves free. A proof holds the script's data several times. A pod that needs
more memory than it may have is ended, and may take Ray's head, or the node of another's Ray cluster, with it."""
NOTE = "proves first what its ranks do, outside every clock"
OF_A_MOMENT_SECONDS = 3600
"""Seconds for which an outcome counts that a full disk or a busy machine may have caused: long enough for the next runs
of a measurement."""


def proved(
    place: Machine, resolved: ResolvedScript, needed: Mapping[str, str], secrets: Iterable[str], folder: Path
) -> Proof:
    """Return what the proof says about the ranks of the script, and write the plan of the ranks into the folder.

    Args:
        place: Where the run is.
        resolved: A script whose ranks are measured (`ResolvedScript.splits`).
        needed: Variables that the user names.
        secrets: Texts that may stand in no outcome, such as the values of these variables.
        folder: The run's own folder.
    """

    def prove() -> Mapping[str, Any]:
        key = resolved.proof_key(needed)
        outcome = kept(key, place.proofs) if place.proofs else None
        if outcome is None:
            short_of_memory, without = _run(place, resolved, needed, folder)
            outcome = taken(folder / plain.OUTCOME, secrets, without)
            if short_of_memory and plain.is_of_a_moment(outcome):
                outcome = {**plain.NO_OUTCOME, "reason": short_of_memory}
            if place.proofs:
                keep(key, outcome, place.proofs)
        return outcome

    return with_plan(place.agreed(prove), resolved.script, folder)


def with_plan(outcome: Mapping[str, Any], script: Script, folder: Path) -> Proof:
    """Return the proof that an outcome stands for, and write the plan of its ranks into a folder."""
    proof = plain.proof_of(outcome, script)
    (folder / plain.PLAN).write_text(json.dumps(proof.plan), encoding="utf-8")
    return proof


def _run(
    place: Machine, resolved: ResolvedScript, needed: Mapping[str, str], folder: Path
) -> tuple[str, Mapping[str, Any]]:
    """Run the proof. Return why it lacked memory, or "", and the outcome that counts if the proof leaves none."""
    killed = cgroup.memory_kills()
    in_run = tempfile.TemporaryDirectory(prefix="storage-", dir=folder)
    with in_run as storage, temporary_folder() as own_ray:
        command = place.proof(resolved, Path(storage), folder / plain.OUTCOME)
        where = str(commands.folder(resolved.script))
        Progress(folder).write("note", text=NOTE)
        print(f"in {where}: {command}", flush=True)
        short, last = threading.Event(), list[bytes]()

        def pass_on(printed: IO[bytes]) -> bool:
            """Print the output of the proof until the proof ends, or until memory is short."""
            limit = cgroup.memory_limit() if place.others_share_memory else None
            with printed:
                while not short.is_set():
                    if select.select([printed], [], [], LOOK_SECONDS)[0]:
                        if not (part := os.read(printed.fileno(), 2**16)):
                            return True
                        os.write(1, part)
                        last[:] = [*last, part][-2:]
                    if limit is not None and cgroup.memory_available() < LEAST_FREE * limit:
                        short.set()
                        foreign_command.end_descendants(grace_seconds=0)  # each would need more until it has ended
            return False

        cpus = min(place.cpus(command), os.cpu_count() or 1)
        environment = place.unobserved(command, needed, Path(own_ray))
        end = foreign_command.run(command.command, where, environment, cpus, pass_on)
    is_short = short.is_set() or cgroup.memory_kills() > killed  # ended here, or by the system
    without = plain.without_outcome(end.code, b"".join(last).decode(errors="replace"))
    return _short_of_memory(place) if is_short else "", without


def _short_of_memory(place: Machine) -> str:
    """Return why a proof for which the memory was not enough has no outcome."""
    if not place.memory_key:
        return "it needs more memory than it may have; with fewer workers it needs less"
    more = f"pulumi config set {place.memory_key} {2 * (cgroup.memory_limit() or 0) // 2**20}Mi gives it twice as much"
    return f"it needs more memory than its pod has: {more}"


def taken(file: Path, secrets: Iterable[str], without: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the outcome in a file and remove the file; return `without` if the file has no outcome. The secrets are
    hidden in the outcome, which has the last lines of a script. What the script read in the file's folder is left out,
    because that folder belongs to this run alone."""
    outcome = read(file) or without
    with suppress(OSError):
        file.unlink()
    if "reads" in outcome:
        own = tuple(f"{each}{os.sep}" for each in (file.parent, file.parent.resolve()))
        outcome = {**outcome, "reads": [each for each in outcome["reads"] if not each[0].startswith(own)]}
    hidden: Mapping[str, Any] = _hidden(Secrets(secrets), outcome)
    return hidden


def _hidden(secrets: Secrets, content: Any) -> Any:
    if isinstance(content, str):
        return secrets.hidden_in(content.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    if isinstance(content, list):
        return [_hidden(secrets, each) for each in content]
    if isinstance(content, dict):
        return {name: _hidden(secrets, each) for name, each in content.items()}
    return content


def read(file: Path) -> Mapping[str, Any] | None:
    """Return the outcome in a file; None if the file is missing or unreadable."""
    try:
        outcome: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return outcome


def kept(key: str, folder: Path = plain.KEPT) -> Mapping[str, Any] | None:
    """Return the outcome that an earlier run kept; None if there is none, or none that still counts. An outcome no
    longer counts, for example, where a file that the script read has changed."""
    file = folder / f"{key}.json"
    outcome = read(file)
    if outcome is None or any(state(path) != (size, at) for path, size, at in outcome.get("reads", ())):
        return None
    if plain.is_of_a_moment(outcome) and time.time() - file.stat().st_mtime > OF_A_MOMENT_SECONDS:
        return None
    return outcome


def keep(key: str, outcome: Mapping[str, Any], folder: Path = plain.KEPT) -> None:
    """Keep an outcome for later runs."""
    write_whole(folder / f"{key}.json", json.dumps(outcome) + "\n")


def keep_port(key: str, port: Mapping[str, str], folder: Path = plain.KEPT) -> None:
    """Keep the outcome of the search for the smallest port with the outcome of the proof under this key."""
    if outcome := read(folder / f"{key}.json"):
        keep(key, {**outcome, "port": dict(port)}, folder)
