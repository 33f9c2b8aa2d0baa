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
"""The word before a program's own arguments, and the name of the parameter that holds these."""
NAME = "RWI_COMMAND"
"""The environment variable with the running command, for messages that say how to call it differently."""

ONLY_PARSE = "only parse"
"""The object of click's contexts with which no command is run."""


def call_of(context: click.Context) -> str:
    """Return the words that name a command, with the assignments that it takes itself, such as a sweep's keys."""
    name = context.command_path.removeprefix(f"{context.find_root().command_path} ")
    own = context.params.get("assignments", {})
    return " ".join([name, *(command_line.assignment(key, text) for key, text in own.items())])


class Command(click.Command):
    """A command that ends as `run_main` does: of an error only the message is printed, and a signal ends the process as
    shells expect."""

    def __init__(self, *args: Any, interrupted: str = "", **kwargs: Any) -> None:
        """Declare a command. `interrupted` is printed after Ctrl-C; "" for one that usually ends that way."""
        super().__init__(*args, **kwargs)
        self.interrupted = interrupted

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before `--`. Those after it are a program's arguments, which may not be given elsewhere."""
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
        """Run the command, and end the process. Relative paths were parsed before this changes the current folder.

        If the command is only to be parsed, return the context, and run nothing.
        """
        if ctx.obj != ONLY_PARSE:
            os.environ[command_line.FROM] = str(Path.cwd())
            os.chdir(ROOT)
            os.environ[NAME] = call_of(ctx)
            run_main(lambda: int(super(Command, self).invoke(ctx) or 0), self.interrupted)
        return ctx


command: Callable[..., Callable[[Callable[..., int]], Command]] = partial(click.command, cls=Command)
"""Declares a command whose function returns the exit status."""


def group(name: str, short_help: str) -> Callable[[Callable[[], None]], click.Group]:
    """Return a decorator that declares a command with commands below it."""
    return click.group(name, cls=Group, short_help=short_help)


class Group(click.Group):
    """A group of commands, in the order in which they stand in the group's module."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)
