"""`rwi bench lesson`: what Ray's tasks, actors and objects cost here, and how long a task must be to gain by them.

Each way has processes of its own, and takes turns with the others: a loop, multiprocessing.Pool, ProcessPoolExecutor,
Ray. It takes three minutes at most, and concludes nothing where the machine was not quiet.
"""

import json
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.lesson import measure, show
from bench.lesson.judge import judge, refusals
from bench.lesson.kept import SCHEMA_VERSION, Kept
from bench.lesson.record import MOST_CPUS, Repeat
from cli.tryout.run_arm import guarded
from infra.places.local import guard
from report import terminal
from training.contract import provenance
from training.contract.codec import encode, write_whole
from training.launch import environment
from training.machine import cpu, isolation, machine_lock

BENCHMARKS = provenance.PROJECT / "benchmarks"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
MORE_SECONDS = 15
"""Beyond the time in which a repeat may begin to end."""


def teach(*, as_json: bool) -> int:
    """Measure, print what may be said, keep it in benchmarks/; 1 where nothing is concluded."""
    cpus = min(MOST_CPUS, len(provenance.allowed_cpus()))
    if cpus == 1:
        sys.exit("error: the lesson compares one CPU with several, and this process may use one")
    try:
        machine_lock.hold(_say)
        if reason := isolation.refusal():
            _say(f"without a network of its own: {reason}")
        repeats, seconds = _measured(cpus)
    except machine_lock.LockError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        _say("stopped: all that was started has ended, and nothing is concluded")
        return INTERRUPTED
    kept = _judged(repeats, cpus, seconds)
    paths = _keep(kept)
    if as_json:
        print(json.dumps(encode(kept)))
    else:
        shown = [f"kept: {path.relative_to(provenance.PROJECT)}" for path in paths]
        terminal.write("\n".join([show.text(kept), *shown]))
    return 1 if kept.refused else 0


def _measured(cpus: int) -> tuple[list[Repeat], float]:
    """Run the repeats under a guard, in a network of their own; all that they started is ended then.

    Exits where they failed.
    """
    with tempfile.TemporaryDirectory(prefix="lesson-") as name, environment.temporary_folder() as temporary:
        folder, began = Path(name), time.monotonic()
        command = [sys.executable, "-m", "bench.lesson.measure", f"--cpus={cpus}", f"--folder={name}"]
        variables = environment.allowed(os.environ) | {"TMPDIR": temporary, "OMP_NUM_THREADS": "1"}
        plan = {
            "command": command,
            "folder": str(provenance.PROJECT),
            "variables": variables,
            "cpus": cpus,
            "ends": str(folder / "end.json"),
        }
        write_whole(folder / "plan.json", json.dumps(plan))
        with guarded(folder / "plan.json", measure.LIMIT_SECONDS + MORE_SECONDS, folder) as running:
            code = running.wait()
        if code not in (0, guard.DEADLINE):
            sys.exit(code)
        return measure.read(folder), time.monotonic() - began


def _judged(repeats: list[Repeat], cpus: int, seconds: float) -> Kept:
    refused = refusals(repeats, cpus)
    return Kept(
        schema_version=SCHEMA_VERSION,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cpu_model=cpu.model(),
        cpus=cpus,
        versions={"python": platform.python_version(), "ray": version("ray")},
        environment=environment.steering(os.environ),
        seconds=seconds,
        repeats=repeats,
        refused=refused,
        lesson=None if refused else judge(repeats),
    )


def _keep(kept: Kept) -> list[Path]:
    """Write the file, and the picture where something is concluded."""
    path = BENCHMARKS / f"lesson-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    write_whole(path, json.dumps(encode(kept), indent=1) + "\n")
    if kept.lesson is None:
        return [path]
    from bench.lesson import picture  # matplotlib takes a second to import, and memory beside what is measured

    try:
        write_whole(path.with_suffix(".svg"), picture.picture(kept.lesson, kept.cpus))
    except ValueError as error:
        _say(f"the picture could not be drawn: {error}")
        return [path]
    return [path, path.with_suffix(".svg")]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
