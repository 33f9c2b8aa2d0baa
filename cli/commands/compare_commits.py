"""`rwi compare-commits`: what a commit did to the whole times of a script."""

from typing import TYPE_CHECKING

import click

from cli import options
from cli.command import command

if TYPE_CHECKING:
    from cli.tryout.typed import Typed

STOPPED = "Stopped: what ran was ended, its checkouts are removed, and nothing is written."
FILE = options.FromHere()


@command("compare-commits", short_help="What a commit did to a script's whole time.", interrupted=STOPPED)
@click.argument("base")
@click.argument("head")
@options.of_script(required=True)
@click.option("--requirements", type=FILE, default="", help="Or a file to make one of.")
@click.option("--arms", default="", metavar="ARM,ARM", help="Default: all that SCRIPT can have.")
@click.option("--minutes", type=click.FloatRange(0.1, 600), default=15, show_default=True, help="Budget of the runs.")
@click.option("--json", "json_to", type=FILE, default="", help="Write the numbers.")
@click.option("--markdown", "markdown_to", type=FILE, default="", help="Write a comment.")
def run(
    base: str,
    head: str,
    typed: "Typed",
    requirements: str,
    arms: str,
    minutes: float,
    json_to: str,
    markdown_to: str,
) -> int:
    """Run SCRIPT of two commits of its repository in turns, until it is decided.

    Exit status: 0 no change shown, or faster; 1 failed; 2 wrong call; 3 slower.
    """
    from cli.commits import measure, request

    names = [name for name in arms.split(",") if name]
    return measure.show(
        request.read(
            typed,
            base,
            head,
            arms=names,
            minutes=minutes,
            requirements=requirements,
            json_to=json_to,
            markdown_to=markdown_to,
        )
    )
