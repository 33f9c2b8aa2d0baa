"""Proves the smallest port of a script: run as its ranks it must have the weights of the single process.

python spread port [--workers N] [--write FILE] -- SCRIPT ARGUMENTS

The outcome is `port`, with its `diff`, or `none`, with the `reason`.
"""

from __future__ import annotations

import io
import sys
import time
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import prove, records
from .judge import MOST_EXACT, MOST_REPEATED, MOST_ROUNDING, TIMES, repeated
from .port import NotMechanical, Port
from .records import Run
from .settings import SEED, Settings, addresses

UNUSED = "find_unused_parameters"
"""Words in the error of DistributedDataParallel (DDP) when a parameter had no gradient."""
LEAST_SECONDS, TIMES_ALONE = 20.0, 10.0
"""Time limit of a port: these seconds, and for each second that the script took as a single process, so many more.
Ranks that wait forever exceed it."""


def port(torch: Any, command: Sequence[str], world: int, seconds: float = prove.SECONDS) -> dict[str, str]:
    """Return the port as a diff, or the reason why there is none."""
    with prove.running(torch, command, world, seconds) as runs:
        try:
            diff, encoding = _find(runs, world)
        except NotMechanical as reason:
            return {"outcome": "none", "reason": (str(reason).strip().splitlines() or [""])[-1]}
        except Exception as error:  # noqa: BLE001 (a script of a kind that nobody thought of)
            return {"outcome": "none", "reason": f"making it failed, which is ours: {error!r}"}
        return {"outcome": "port", "diff": diff, "encoding": encoding}


def _find(runs: prove.Runs, world: int) -> tuple[str, str]:
    """Return the diff of a port that passed the proof, and the script's encoding. Raises NotMechanical without one."""
    began = time.monotonic()
    plan = runs.plan()
    if plan.error:
        raise NotMechanical(plan.error)
    # What every port does otherwise is off: statistics are those kept, and chance is the same for each row
    path = str(plan.folder / "facts-rank0.json")
    of_all: dict[str, Any] = {"double": True, "keyed": True, "alike": True}
    of_all["statistics"] = not plan.facts[0]["batchStatistics"]
    alone = runs.start("alone", 1, plan=path, even=world, **of_all)
    turned = runs.start("turned", 1, plan=path, even=world, reverse=True, **of_all)
    runs.wait(alone, turned)
    if alone.error or turned.error:
        raise NotMechanical(alone.error or turned.error)
    passes = plan.facts[0]["passes"]
    if 2 * alone.facts[0]["uneven"] > sum(each["batches"] for each in passes if each["feeds"]):
        raise NotMechanical(f"the rows of its batches are no multiple of {world}")
    run, diff, encoding = _run(runs, of_all, passes, world, LEAST_SECONDS + TIMES_ALONE * (time.monotonic() - began))
    if run.error:
        failed = f"the port fails: {run.error.splitlines()[-1]}"
        raise NotMechanical(failed if run.ended else "the port, run as ranks, did not end in time")
    if repeated(alone, run) > MOST_REPEATED:
        raise NotMechanical("the port splits no rows")
    apart = max(_apart(runs.torch, alone, run, rank) for rank in range(world))
    if apart > max(MOST_EXACT, TIMES * min(_apart(runs.torch, alone, turned), MOST_ROUNDING)):
        raise NotMechanical(f"the weights of the port are others by {apart:.1g} of their change")
    return diff, encoding


def _run(
    runs: prove.Runs, of_all: Mapping[str, Any], passes: Sequence[Mapping[str, Any]], world: int, seconds: float
) -> tuple[Run, str, str]:
    """Run the port, with a search for unused parameters if DDP's error asks for it; return the run, the port's diff and
    the script's encoding."""
    script = Path(runs.command[0])
    content = script.read_bytes()
    encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0].removesuffix("-sig")
    source = content.decode(encoding)

    def run(name: str, candidate: Port) -> Run:
        started = _ranks(runs, of_all, world, runs.folder / name, candidate.text().encode(encoding))
        runs.wait(started, seconds=seconds)
        return started

    candidate = Port(source, passes, script.name)
    ran = run("ranks", candidate)
    if UNUSED in ran.error:
        candidate = Port(source, passes, script.name, unused=True)
        ran = run("ranks-unused", candidate)
    return ran, candidate.diff(script.name), encoding


def _apart(torch: Any, alone: Run, other: Run, rank: int = 0) -> float:
    distances = records.weights(torch, alone, other, rank)
    return records.largest(distances) if distances else records.INFINITE


def _ranks(runs: prove.Runs, of_all: Mapping[str, Any], world: int, folder: Path, text: bytes) -> Run:
    """Start the ported script as torchrun does."""
    (folder / "files").mkdir(parents=True)
    code = folder / "ported.py"
    code.write_bytes(text)
    # Each is a single process for what is around it: the script itself is distributed
    settings = Settings(out=str(folder), steps=prove.STEPS, watches=True, code=str(code), private=str(folder / "files"))
    host, _, number = addresses("torch").rpartition(":")
    place = {"MASTER_ADDR": host, "MASTER_PORT": number, "WORLD_SIZE": str(world)}
    started = []
    for rank in range(world):
        variables = {**place, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world)}
        own = replace(settings, rank=rank, seed=SEED + rank, **of_all)  # no seed is given to who starts a port
        started.append(runs.fork(own, folder, variables))
    return Run("ported", folder, started)


def main() -> int:
    """Print the port as JSON, or write it into a file; return 0 if there is a port, 1 otherwise."""
    return prove.main(port, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
