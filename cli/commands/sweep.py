"""`rwi sweep`: measure under several settings."""

import click

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("sweep", short_help='Several settings: sweep workers="1 2 3".')
@options.assignments('KEY="VALUE VALUE..."...')
@options.stack
@options.settings
@click.option("--keep", is_flag=True, help="Keep the sweep's stack at the end.")
def run(assignments: dict[str, str], stack: str, settings: dict[str, str], keep: bool) -> int:
    """Measure under several settings, and write one report: sweep workers="1 2 3" epochs="2 4"."""
    bootstrap.ensure_for(stack, settings)
    from cli.sweep import sweep

    return sweep.sweep(assignments, stack, settings, keep=keep)
