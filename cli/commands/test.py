"""`rwi test`: the tests."""

import os

import click

from cli.command import command
from cli.setup import bootstrap
from cli.setup.project import STATE, need_tests

CLUSTER_STACK = "ci"
SOURCED = '[ -z "$CLUSTER_ENV" ] || . "$CLUSTER_ENV"; exec "$@"'
"""CLUSTER_ENV names a file of a shell, with variables."""


@command("test", short_help="The tests that this machine can run.")
@click.argument("arguments", nargs=-1, metavar="[-- FOR_PYTEST...]")
@click.option("--slow", is_flag=True, help="Those that take long, too.")
@click.option("--cluster", is_flag=True, help="Those on a Minikube alone, instead.")
def run(arguments: tuple[str, ...], slow: bool, cluster: bool) -> int:
    """Run the tests that this machine can run, and name those that it can't.

    What follows -- is pytest's, instead of everything: test -- -n 2 tests/unit.
    """
    need_tests()
    from cli.stack import environment

    if cluster:
        bootstrap.ensure("dev", cli=True)
        bootstrap.ensure_for(CLUSTER_STACK)
        os.environ["TEST_CLUSTER"] = "1"
        words = ["pytest", *(arguments or ["--durations=0", "tests/cluster"])]
        environment.execute(["bash", "-c", SOURCED, "test", *words])
    bootstrap.ensure("dev", "tracking", cli=True)
    words = ["pytest", "-n", "4", *([] if slow else ["--without-slow"]), f"--junitxml={STATE / 'test-results.xml'}"]
    environment.execute(["pytest", *arguments] if arguments else [*words, "tests"])
