"""`rwi project`: this clone, and plain Pulumi in it."""

import click

from cli import options
from cli.command import group
from cli.setup import bootstrap
from training.machine.command_line import rwi


@group("project", "This clone: env, clean.")
def run() -> None:
    """Use plain Pulumi here, or remove what was installed."""


@run.command("env", short_help=f'For plain pulumi commands: eval "$({rwi("project env")})".')
@options.stack
def env(stack: str) -> int:
    """Print what plain `pulumi` commands need in a shell, and select the stack for them."""
    bootstrap.ensure_for(stack)
    from cli.stack import environment
    from cli.stack import stack as stacks

    stacks.of(stack, {}).select()
    return environment.show(stack)


@run.command("clean", short_help="Remove tools and state; measurements stay.")
@click.option("--all", "with_measurements", is_flag=True, help="Remove measurements, too.")
def clean(with_measurements: bool) -> int:
    """Remove what was installed here, and the state of stacks that hold nothing."""
    from cli.stack import clean

    return clean.clean(with_measurements=with_measurements)
