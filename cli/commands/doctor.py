"""`rwi doctor`: what a stack needs, what is missing, and the fix."""

import click

from cli import options
from cli.command import command
from cli.setup import bootstrap


@command("doctor", short_help="What the stack needs and lacks, and the fix.")
@options.stack
@options.settings
@click.option("--archive", "is_archived", is_flag=True, help="Write what is known of the cluster into an archive.")
@click.option("--logs", is_flag=True, help="With --archive: with logs, as the programs printed them.")
def run(stack: str, settings: dict[str, str], is_archived: bool, logs: bool) -> int:
    """Compare what the stack needs with what is installed, and print the fixes. Nothing is changed."""
    if logs and not is_archived:
        raise click.UsageError("--logs is for --archive")
    bootstrap.ensure_for(stack, settings, cli=not is_archived)
    if is_archived:
        from cli.look import diagnose

        return diagnose.archive(stack, settings, logs=logs)
    from cli.look import doctor

    return doctor.examine(stack, settings)
