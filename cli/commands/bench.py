"""`rwi bench`: what this machine, Ray, and the loss of a worker cost, apart from any measurement."""

import click

from cli import options
from cli.command import group
from cli.setup import bootstrap

VICTIM = click.Choice(["worker", "head"])


@group("bench", "Costs: arms, lesson, recovery.")
def run() -> None:
    """Measure what is no answer by itself: this machine's limit, Ray's own costs, the loss of a worker."""


@run.command("arms", short_help="Compare the arms with this machine's limit.")
@click.option("--quick", is_flag=True, help="float32 at batch 128, few steps.")
@click.option("--only", metavar="COLUMNS", default="", help="These alone, as 'bfloat16 bfloat16/512'.")
@click.option("--repeats", type=click.IntRange(1, 100), default=3, show_default=True)
@options.as_json
def arms(quick: bool, only: str, repeats: int, as_json: bool) -> int:
    """Compare what the arms reach with what this machine allows."""
    from bench import arms

    return arms.compare(quick=quick, only=only, repeats=repeats, as_json=as_json)


@run.command("lesson", short_help="What Ray's tasks, actors and objects cost here: 3 minutes.")
@options.as_json
def lesson(as_json: bool) -> int:
    """Measure what Ray's tasks, actors and objects cost here, and how long a task must be to gain by them."""
    from bench.lesson import lesson

    return lesson.teach(as_json=as_json)


@run.command("recovery", short_help="What the loss of a worker, or of Ray's head, costs.")
@options.stack
@options.settings
@click.option("--of", "victims", type=VICTIM, multiple=True, default=["worker"], help="Repeatable.")
def recovery(stack: str, settings: dict[str, str], victims: tuple[str, ...]) -> int:
    """Train twice with checkpoints, kill a worker or Ray's head once, and print what that cost."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.recovery import recovery
    from cli.recovery.run import Victim

    return recovery.recover(stack, settings, [Victim(name) for name in dict.fromkeys(victims)])
