"""The lesson's repeats: `python -m bench.lesson.measure --cpus 2 --folder F` leaves them in F/repeats.json.

In a repeat the ways take turns at being first, and each has processes of its own. After a repeat in which other
programs took CPUs it ends: with that one nothing can be concluded any more.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.lesson import block, work
from bench.lesson.record import WAYS, Block, Repeat
from cli.tryout.others import Others
from infra.places.local.beside import FOLLOW_SECONDS
from infra.plan import in_turn
from training.contract.codec import decode, encode, write_whole
from training.contract.provenance import PROJECT
from training.machine import output

NAME = "repeats.json"
REPEATS = 5
LIMIT_SECONDS = 165
"""A repeat that would probably not end within it is not begun."""
MOST_LINES = 15
"""Of the log of a block that failed."""


def main() -> None:
    """Measure until it is enough."""
    parser = argparse.ArgumentParser(prog="python -m bench.lesson.measure", description=__doc__)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    began, repeats = time.monotonic(), list[Repeat]()
    for number in range(1, REPEATS + 1):
        longest = max((repeat.seconds for repeat in repeats), default=0.0)
        if time.monotonic() - began + longest > LIMIT_SECONDS:
            _say(f"the time for another repeat is over: {LIMIT_SECONDS} s")
            break
        with Others(look_seconds=FOLLOW_SECONDS) as others:  # some of Ray's workers live a second
            started = time.monotonic()
            pace = work.iterations_per_second()
            blocks = {way: _block(way, options.cpus, pace) for way in in_turn(WAYS, number)}
            seconds = time.monotonic() - started
        repeats.append(Repeat(blocks=blocks, iterations_per_second=pace, seconds=seconds, use=others.use()))
        write_whole(options.folder / NAME, json.dumps(encode(repeats)) + "\n")
        busy = others.in_words()
        _say(f"repeat {number} of {REPEATS}: {seconds:.0f} s{f'; {busy}' if busy else ''}")
        if busy:
            break


def read(folder: Path) -> list[Repeat]:
    """The repeats that are whole; none if there is no file."""
    path = folder / NAME
    if not path.is_file():
        return []
    repeats: list[Repeat] = decode(list[Repeat], json.loads(path.read_text(encoding="utf-8")), NAME)
    return repeats


def _block(way: str, cpus: int, pace: float) -> Block:
    """Run one way in a process of its own. Exits with the end of its log if it fails."""
    with tempfile.TemporaryDirectory(prefix="b-") as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "bench.lesson.block",
            way,
            f"--cpus={cpus}",
            f"--pace={pace}",
            f"--folder={name}",
        ]
        with (folder / "log.txt").open("wb") as log:
            ended = subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if ended.returncode:
            lines = output.last_lines(output.end_of_file(folder / "log.txt"), MOST_LINES)
            sys.exit("\n".join([f"error: {way} ended with exit code {ended.returncode}; the end of its log:", *lines]))
        measured: Block = decode(Block, json.loads((folder / block.NAME).read_text(encoding="utf-8")), block.NAME)
        return measured


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
