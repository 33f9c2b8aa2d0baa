"""`rwi try`: some steps of a user's script, in every arm."""

from typing import TYPE_CHECKING

import click

from cli import options
from cli.command import command

if TYPE_CHECKING:
    from cli.tryout.typed import Typed

STOPPED = "Stopped: what ran was ended, and nothing is written."


@command("try", short_help="20 steps of a script of yours, each way.", interrupted=STOPPED)
@options.of_script(required=True)
@click.option("--steps", type=click.IntRange(8, 10_000), default=20, show_default=True, help="Of each arm.")
@click.option("--limit", type=click.IntRange(5, 3600), default=120, show_default=True, help="Seconds of each arm.")
@click.option("--write", "writes", is_flag=True, help="Write a stack that measures it, if it can be compared.")
@click.option("--stack", type=options.StackName(), default="", help="The stack to write; default: after the script.")
def run(typed: "Typed", steps: int, limit: int, writes: bool, stack: str) -> int:
    """Run about 20 steps of SCRIPT in every arm, as it is.

    It runs in its own environment, where nothing is installed. You see the command of each arm, what each did, and what
    a measurement could claim. What follows -- is the script's:

      try ../mine/train.py --python ../mine/.venv --workers 3 -- --epochs 1
    """
    from cli.tryout import request, tryout

    return tryout.tryout(request.read(typed, steps=steps, limit_seconds=limit, writes=writes, stack=stack))
