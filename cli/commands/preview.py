"""`rwi preview`: what `up` would do."""

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("preview", short_help="What `up` would do, and how long it takes.", interrupted=options.KEPT)
@options.stack
@options.settings
def run(stack: str, settings: dict[str, str]) -> int:
    """Print what `up` would do, and how long it takes. Nothing is changed."""
    bootstrap.ensure_for(stack, settings)
    from cli.stack import stack as stacks

    return stacks.of(stack, settings, checked=True).preview()
