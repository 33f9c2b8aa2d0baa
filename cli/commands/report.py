"""`rwi report`: results that are kept."""

import click

from cli import options
from cli.command import group
from cli.setup import bootstrap

result = click.option("--result", default="latest", show_default=True, help="Of which: as `report history` lists them.")
path_only = click.option("--print", "path_only", is_flag=True, help="Print its path alone.")


@group("report", "open, history, tensorboard, fetch, adopt.")
def run() -> None:
    """Open, list or compare results, and use what runs left."""


@run.command("open", short_help="Open the report of a result.")
@options.stack
@options.settings
@click.option("--result", help="Of which: as `report history` lists them; default: the stack's, as it is now.")
@path_only
def open_report(stack: str, settings: dict[str, str], result: str | None, path_only: bool) -> int:
    """Open the report of a result in the browser. It is written first if `pulumi up` measured it."""
    bootstrap.ensure_for(stack, settings)
    from report import show

    if not result:
        from cli.stack import stack as stacks

        if status := stacks.of(stack, settings).report():
            return status
    return show.open_page(stack, result or "latest", path_only=path_only)


@run.command("history", short_help="List the results, or two side by side.")
@click.argument("results", nargs=-1, metavar="[RESULT RESULT]")
@options.stack
def history(stack: str, results: tuple[str, ...]) -> int:
    """List the stack's results; with two, print them side by side: report history 1 latest."""
    if len(results) not in (0, 2):
        raise click.UsageError("two results can be compared, by number, `latest`, or the beginning of a name")
    from report import show

    return show.history(stack, results)


@run.command("tensorboard", short_help="Show a result's curves in TensorBoard.")
@click.argument("arguments", nargs=-1, metavar="[-- FOR_TENSORBOARD...]")
@options.stack
@result
@path_only
def tensorboard(stack: str, result: str, path_only: bool, arguments: tuple[str, ...]) -> int:
    """Show curves in TensorBoard, which is installed when it is first wanted."""
    from cli.follow import tensorboard

    return tensorboard.show(stack, result, list(arguments), path_only=path_only)


@run.command("fetch", short_help="Bring back what a run kept in storage.")
@click.argument("name", metavar="RUN", required=False)
@options.stack
@options.settings
@click.option("--to", type=options.FromHere(), help="A folder that is new, or that run's; default: in runs/.")
def fetch(stack: str, settings: dict[str, str], name: str | None, to: str | None) -> int:
    """Bring back what RUN kept in storage: checkpoints, its model, artifacts of a script."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.fetch import fetch

    return fetch.bring_back(stack, settings, name or "", to or "")


@run.command("adopt", short_help="Write a stack of the best trial of a search.")
@options.stack
@result
def adopt(stack: str, result: str) -> int:
    """Write a stack's file of the best trial of a search. Nothing is measured."""
    from cli.adopt import adopt

    return adopt.adopt(stack, result)
