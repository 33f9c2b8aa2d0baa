"""Lets random lifecycles happen to a project, with the real engine, and ends at the first thing that does not hold.

    python -m tests.lifecycle --steps 300 --seed 7
    python -m tests.lifecycle --replay steps.txt

A failure prints its steps as lines that begin with `state.`: in a file they can be replayed.
"""

import argparse
import sys
from pathlib import Path

from tests.lifecycle.drive import drive, replay
from tests.program.engine import cli_here
from tests.surroundings import make_plain


def main() -> int:
    """Exit code 0 where everything holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.lifecycle", description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=20, help="steps of one project")
    parser.add_argument("--replay", type=Path, help="file with the steps that a failure has printed")
    given = parser.parse_args()
    make_plain()
    program = cli_here()
    if program is None:
        sys.exit("no Pulumi CLI on PATH or in .tools: `./rwi test` brings it")
    if given.replay:
        replay(program, given.replay.read_text(encoding="utf-8"))
    else:
        drive(program, steps=given.steps, seed=given.seed, each=given.each)
    return 0


if __name__ == "__main__":
    sys.exit(main())
