"""`rwi bench lesson`: what Ray's tasks, actors and objects cost here, and how long a task must be to gain by them.

It starts itself under a guard: `python -m bench.lesson.lesson --cpus 2 --folder F` makes the repeats. In a repeat the
ways take turns at being first. It takes three minutes at most, and concludes nothing where the machine was not quiet.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.lesson import table, ways
from bench.lesson.table import Kept, Repeat
from cli.tryout.others import Others
from cli.tryout.run_arm import guarded
from infra.places.local import guard
from infra.places.local.beside import FOLLOW_SECONDS
from infra.plan import in_turn
from report import terminal
from training.contract import provenance
from training.contract.codec import decode, encode, write_whole
from training.launch import environment
from training.machine import cpu, isolation, machine_lock, output

BENCHMARKS = provenance.PROJECT / "benchmarks"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
MOST_CPUS = 4
"""Most CPUs that the lesson uses: with more CPUs a repeat takes longer and says the same."""
REPEATS = 5
LIMIT_SECONDS = 165
"""Seconds for all repeats: a repeat that would probably end later is not started."""
MORE_SECONDS = 15
"""Seconds beyond LIMIT_SECONDS that the last repeat may take before it is ended."""
MOST_LINES = 15
"""Most lines that are shown from the log of a way that failed."""


def teach(*, as_json: bool) -> int:
    """Measure, print the conclusions, keep them in benchmarks/, and return the exit code: 1 if nothing is concluded."""
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
    refused = table.refusals(repeats, cpus)
    kept = Kept(
        schema_version=1,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cpu_model=cpu.model(),
        cpus=cpus,
        versions={"python": platform.python_version(), "ray": version("ray")},
        environment=environment.steering(os.environ),
        seconds=seconds,
        repeats=repeats,
        refused=refused,
        lesson=None if refused else table.judge(repeats),
    )
    paths = _keep(kept)
    if as_json:
        print(json.dumps(encode(kept)))
    else:
        shown = [f"kept: {path.relative_to(provenance.PROJECT)}" for path in paths]
        terminal.write("\n".join([table.text(kept), *shown]))
    return 1 if refused else 0


def _measured(cpus: int) -> tuple[list[Repeat], float]:
    """Run the repeats in a network of their own where the system allows that, under a guard that ends all processes
    which they started.

    Return the complete repeats, and the seconds that all repeats took. Exit if the repeats failed.
    """
    with tempfile.TemporaryDirectory(prefix="lesson-") as name, environment.temporary_folder() as temporary:
        folder, began = Path(name), time.monotonic()
        plan = {
            "command": [sys.executable, "-m", "bench.lesson.lesson", f"--cpus={cpus}", f"--folder={name}"],
            "folder": str(provenance.PROJECT),
            "variables": environment.allowed(os.environ) | {"TMPDIR": temporary, "OMP_NUM_THREADS": "1"},
            "cpus": cpus,
            "ends": str(folder / "end.json"),
        }
        write_whole(folder / "plan.json", json.dumps(plan))
        with guarded(folder / "plan.json", LIMIT_SECONDS + MORE_SECONDS, folder) as running:
            code = running.wait()
        if code not in (0, guard.DEADLINE):
            sys.exit(code)
        return read(folder), time.monotonic() - began


def _keep(kept: Kept) -> list[Path]:
    """Write the measurement to a JSON file, and a picture if something is concluded. Return the paths of the files."""
    path = BENCHMARKS / f"lesson-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    write_whole(path, json.dumps(encode(kept), indent=1) + "\n")
    if kept.lesson is None:
        return [path]
    try:
        write_whole(path.with_suffix(".svg"), table.picture(kept.lesson, kept.cpus))
    except ValueError as error:
        _say(f"the picture could not be drawn: {error}")
        return [path]
    return [path, path.with_suffix(".svg")]


def main() -> None:
    """Run the repeats, up to one in which other programs took CPUs, because nothing can be concluded any more."""
    parser = argparse.ArgumentParser(prog="python -m bench.lesson.lesson", description=__doc__)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for repeats.json")
    options = parser.parse_args()
    began, repeats = time.monotonic(), list[Repeat]()
    for number in range(1, REPEATS + 1):
        longest = max((repeat.seconds for repeat in repeats), default=0.0)
        if time.monotonic() - began + longest > LIMIT_SECONDS:
            _say(f"the time for another repeat is over: {LIMIT_SECONDS} s")
            break
        with Others(look_seconds=FOLLOW_SECONDS) as others:  # some of Ray's workers live a second
            started = time.monotonic()
            pace = ways.iterations_per_second()
            blocks = {way: _block(way, options.cpus, pace) for way in in_turn(ways.WAYS, number)}
            seconds = time.monotonic() - started
        repeats.append(Repeat(blocks=blocks, iterations_per_second=pace, seconds=seconds, use=others.use()))
        write_whole(options.folder / "repeats.json", json.dumps(encode(repeats)) + "\n")
        busy = others.in_words()
        _say(f"repeat {number} of {REPEATS}: {seconds:.0f} s{f'; {busy}' if busy else ''}")
        if busy:
            break


def read(folder: Path) -> list[Repeat]:
    """Return the complete repeats from the folder's file; an empty list if there is no file."""
    path = folder / "repeats.json"
    if not path.is_file():
        return []
    repeats: list[Repeat] = decode(list[Repeat], json.loads(path.read_text(encoding="utf-8")), path.name)
    return repeats


def _block(way: str, cpus: int, pace: float) -> ways.Block:
    """Run one way to run tasks, in a process of its own, and return its measurements. Exit with the end of its log if
    the process fails."""
    with tempfile.TemporaryDirectory(prefix="b-") as name:
        log = Path(name, "log.txt")
        module = [sys.executable, "-m", "bench.lesson.ways"]
        command = [*module, way, f"--cpus={cpus}", f"--pace={pace}", f"--folder={name}"]
        with log.open("wb") as out:
            ended = subprocess.run(
                command, cwd=provenance.PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
            )
        if ended.returncode:
            lines = output.last_lines(output.end_of_file(log), MOST_LINES)
            sys.exit("\n".join([f"error: {way} ended with exit code {ended.returncode}; the end of its log:", *lines]))
        data = json.loads(Path(name, "block.json").read_text(encoding="utf-8"))
        measured: ways.Block = decode(ways.Block, data, "block.json")
        return measured


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
