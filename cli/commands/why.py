"""`rwi why`: why a step takes so long."""

from typing import TYPE_CHECKING

import click

from cli import options
from cli.command import command

if TYPE_CHECKING:
    from cli.tryout.typed import Typed


@command("why", short_help="Why a step takes long, what would shorten it.")
@options.of_script(required=False)
@click.option("--stack", type=options.StackName(), default="", help="Its script, where none is given.")
@options.settings
@click.option("--arm", "arms", multiple=True, metavar="ARM", help="native, baseline, wide or ray; repeatable.")
@click.option("--limit", type=click.IntRange(5, 3600), default=600, show_default=True, help="Seconds of all arms.")
def run(typed: "Typed", stack: str, settings: dict[str, str], arms: tuple[str, ...], limit: int) -> int:
    """Change one condition of SCRIPT's steps at a time, and say what makes them long.

    SCRIPT is given as for `try`, or it is that of a stack. What follows -- is the script's.
    """
    from cli.why import request, why

    return why.try_conditions(request.read(typed, arms=arms, limit_seconds=limit, stack=stack, settings=settings))
