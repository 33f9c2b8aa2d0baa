"""`rwi destroy`: delete what a stack holds."""

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("destroy", short_help="Delete what the stack holds; results stay.", interrupted=options.KEPT)
@options.stack
@options.settings
def run(stack: str, settings: dict[str, str]) -> int:
    """Delete what the stack holds. Its runs and results stay."""
    bootstrap.ensure_for(stack, settings)
    from cli.stack import stack as stacks

    return stacks.of(stack, settings).destroy()
