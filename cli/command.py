"""A command of `./rwi`: a function with typed options, which runs in the project's folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import augment_usage_errors

from cli.setup.project import ROOT, run_main
from training.machine import command_line

END, REST = "--", "arguments"
"""What a program's own arguments follow, and the parameter that has them."""
NAME = "RWI_COMMAND"
"""The environment's variable with the command that runs, for lines that say how to call it otherwise."""

ONLY_PARSE = "only parse"
"""The object of click's contexts with which no command is run."""


def call_of(context: click.Context) -> str:
    """Return the words that name a command, and its own assignments: a sweep's keys."""
    name = context.command_path.removeprefix(f"{context.find_root().command_path} ")
    own = context.params.get("assignments", {})
    return " ".join([name, *(command_line.assignment(key, text) for key, text in own.items())])


class Command(click.Command):
    """A command that ends as `run_main` has it: an error is its message alone, a signal ends it as a shell expects."""

    def __init__(self, *args: Any, interrupted: str = "", **kwargs: Any) -> None:
        """Declare one.

        Args:
            args: Of click's.
            interrupted: What a user reads after Ctrl-C; "" where that is how the command ends anyway.
            kwargs: Of click's.
        """
        super().__init__(*args, **kwargs)
        self.interrupted = interrupted

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`; what follows it is a program's own, and nothing else is."""
        passes_on = any(each.name == REST for each in self.params) and not ctx.resilient_parsing
        end = args.index(END) if passes_on and END in args else len(args)
        with augment_usage_errors(ctx):  # else an option without its value does not say of which command
            left = super().parse_args(ctx, args[:end])
        if passes_on:
            if extra := ctx.params[REST]:
                ctx.fail(f"Got unexpected extra argument ({' '.join(extra)})")
            ctx.params[REST] = tuple(args[end + 1 :])
        return left

    def invoke(self, ctx: click.Context) -> click.Context:
        """Run it, and end the process. What was typed is parsed by now, so relative paths keep their meaning.

        Returns the context where it is only to be parsed.
        """
        if ctx.obj != ONLY_PARSE:
            os.environ[command_line.FROM] = str(Path.cwd())
            os.chdir(ROOT)
            os.environ[NAME] = call_of(ctx)
            run_main(lambda: int(super(Command, self).invoke(ctx) or 0), self.interrupted)
        return ctx


command: Callable[..., Callable[[Callable[..., int]], Command]] = partial(click.command, cls=Command)
"""Declare a command: its function returns the exit status."""


def group(name: str, short_help: str) -> Callable[[Callable[[], None]], click.Group]:
    """Declare a command that has others below it."""
    return click.group(name, cls=Group, short_help=short_help)


class Group(click.Group):
    """Commands below one, in the order in which they stand in its module."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)
