"""`rwi status`: what a stack's cluster does now, or the run that goes on."""

import click

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("status", short_help="A cluster, now; with --watch a running `up`.")
@options.stack
@options.settings
@click.option("--watch", "is_watched", is_flag=True, help="Follow a running `up`, on any target, until it is over.")
def run(stack: str, settings: dict[str, str], is_watched: bool) -> int:
    """Print the nodes and pods of the stack's cluster, Ray, and the current run. Nothing is changed.

    A stack with target local has no cluster: --watch follows its runs. With --watch the exit status is 3 if there is
    no `up` to follow.
    """
    bootstrap.ensure_for(stack, settings, cli=False)
    if is_watched:
        from cli.follow import watch

        return watch.follow(stack, settings)
    from cli.look import status

    return status.show(stack, settings)
