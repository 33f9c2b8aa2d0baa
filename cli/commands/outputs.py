"""`rwi outputs`: print the comparison again."""

from cli import options
from cli.command import command
from cli.setup import bootstrap
from cli.setup.project import ToolError


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
    if as_json:
        print(comparison)
        return 0
    from compare.measurement import CompareError
    from compare.schema import Comparison
    from report import table, terminal

    try:
        terminal.write(table.render(Comparison.from_json(comparison)))
    except CompareError as error:
        raise ToolError(str(error)) from None
    return 0
