"""`rwi up`: measure."""

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("up", short_help="Measure what is missing, print the answer.", interrupted=options.KEPT)
@options.stack
@options.settings
def run(stack: str, settings: dict[str, str]) -> int:
    """Measure what is missing, print the answer, write a report.

    Runs that are there are kept, so the same command goes on where it was ended. --stack smoke runs everything once, as
    a test, and leaves nothing.
    """
    bootstrap.ensure_for(stack, settings)
    from cli.stack import stack as stacks

    return stacks.up(stack, settings)
