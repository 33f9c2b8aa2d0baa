"""`rwi jobs`: the Ray cluster of a stack, and a user's own scripts on it."""

import click

from cli import options
from cli.command import group
from cli.setup import bootstrap

job = click.argument("name", metavar="JOB", required=False, default="")


@group("jobs", "list, submit, logs, stop, dashboard.")
def run() -> None:
    """Run scripts of yours on the stack's Ray cluster while nothing is measured, and see what it does."""


@run.command("list", short_help="List that Ray cluster's jobs.")
@options.stack
@options.settings
def list_jobs(stack: str, settings: dict[str, str]) -> int:
    """List all jobs, the newest last."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.jobs import jobs

    return jobs.on_ray(stack, settings, "list", jobs.list_all)


@run.command("submit", short_help="Run a script of yours there.")
@click.argument("script", type=options.FromHere())
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@options.stack
@options.settings
@click.option("--folder", type=options.FromHere(), default="", help="What is sent; default: the script's folder.")
@options.variables
@click.option(
    "--pip", "packages", multiple=True, help="A package to install first, or a requirements file; repeatable."
)
@click.option("--detach", is_flag=True, help="Do not follow the log.")
def submit(
    stack: str, settings: dict[str, str], script: str, arguments: tuple[str, ...], folder: str,
    variables: dict[str, str], packages: tuple[str, ...], detach: bool,
) -> int:  # fmt: skip
    """Run SCRIPT on the Ray cluster and follow its log. What follows -- is SCRIPT's; {workers}: number of workers."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.jobs import jobs, request

    typed = request.Typed(script, arguments, folder, variables, packages)
    return jobs.on_ray(stack, settings, "submit", lambda place: jobs.submit(place, typed, detach=detach))


@run.command("logs", short_help="Follow the log of one.")
@job
@options.stack
@options.settings
def logs(stack: str, settings: dict[str, str], name: str) -> int:
    """Print the log of JOB as it grows, to the job's end."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.jobs import jobs

    return jobs.on_ray(stack, settings, "logs", lambda place: jobs.logs(place, name))


@run.command("stop", short_help="End one.")
@job
@options.stack
@options.settings
def stop(stack: str, settings: dict[str, str], name: str) -> int:
    """End JOB."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.jobs import jobs

    return jobs.on_ray(stack, settings, "stop", lambda place: jobs.stop(place, name))


@run.command("dashboard", short_help="Where Ray's dashboard answers, forwarded if needed.")
@options.stack
@options.settings
def dashboard(stack: str, settings: dict[str, str]) -> int:
    """Print where Ray's dashboard answers, and the line that prints its token; forward it where that is needed."""
    bootstrap.ensure_for(stack, settings, cli=False)
    from cli.look import dashboard

    return dashboard.show(stack, settings)
