"""`rwi set`: change settings for good."""

from cli import options
from cli.command import command


@command("set", short_help="Change a setting for good: set workers=3.")
@options.assignments("KEY=VALUE...")
@options.stack
def run(stack: str, assignments: dict[str, str]) -> int:
    """Change settings in the stack's file, for good: set workers=3 epochs=8. Nothing after = removes one."""
    from cli.stack import change

    return change.change(stack, assignments)
