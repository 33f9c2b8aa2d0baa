"""`rwi outputs`: print the comparison again."""

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("outputs", short_help="Print the comparison again.")
@options.stack
@options.as_json
def run(stack: str, as_json: bool) -> int:
    """Print the comparison again, as a table or as JSON."""
    bootstrap.ensure_for(stack, cli=False)
    from cli.stack import outputs

    comparison = outputs.known(stack)
    if comparison is None:
        bootstrap.ensure_for(stack)
        from cli.stack import stack as stacks

        comparison = stacks.of(stack, {}).measured()
    return outputs.show(comparison, as_json=as_json)
