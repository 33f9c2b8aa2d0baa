"""Options that mean the same in every command, and the types of what is typed."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from cli import meant
from cli.setup.project import DEFAULT_STACK, ROOT, ToolError, checked_stack_name, project_name, stack_names
from training.workloads.script.recognise import KINDS

KEPT = "Stopped. Runs that have ended are kept; the same command goes on from there."
"""The text for a user who stops a command that makes runs."""
_KEY = re.compile(r"[A-Za-z][\w.-]*(?::[A-Za-z][\w.-]*)?")


class StackName(click.ParamType[str]):
    """The type of an option that takes the name of a stack."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the stack. Fail if it is not a valid name; "" is allowed, and means no stack."""
        if value == "":
            return ""
        try:
            return checked_stack_name(str(value))
        except ToolError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names of stacks with a settings file that begin with what was typed so far."""
        return [CompletionItem(name) for name in stack_names() if name.startswith(incomplete)]


class Assignment(click.ParamType[tuple[str, str]]):
    """The type of an argument `key=value`, where the key is a setting."""

    name = meant.ASSIGNMENT

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the key and the value. The key may be typed with the project's name before it, as Pulumi allows."""
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals or not _KEY.fullmatch(key):
            self.fail(f"{value!r} is not key=value, as in  workers=3", param, ctx)
        return key.removeprefix(f"{project_name()}:"), text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names of settings that begin with what was typed so far, each with `=`."""
        return [CompletionItem(f"{key}=") for key in meant.setting_names() if key.startswith(incomplete)]


class FromHere(click.ParamType[str]):
    """The type of a path that is typed relative to the current folder and kept relative to the project's folder."""

    name = "path"

    def __init__(self, *, or_program: bool = False) -> None:
        """With `or_program`, a word is the name of a program on PATH, unless it has a slash, begins with a dot, or is
        the folder of an environment here."""
        self.or_program = or_program

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return an absolute path unchanged, and any other path relative to the project's folder. "" means no path."""
        text = str(value)
        if not text:
            return ""
        path = os.path.expanduser(text)  # noqa: PTH111 - Path's raises for an unknown ~user
        if os.path.isabs(path) or (self.or_program and _names_program(text)) or Path.cwd() == ROOT:  # noqa: PTH117
            return text
        return os.path.relpath(path, ROOT)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return a completion that lets the shell complete the path itself."""
        return [CompletionItem(incomplete, type="file")]


def _names_program(text: str) -> bool:
    return "/" not in text and not text.startswith(".") and not Path(text, "bin", "python").exists()


class Variable(click.ParamType[tuple[str, str]]):
    """The type of an option `NAME=value`, which sets a variable for a script."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the variable's name and value."""
        if isinstance(value, tuple):
            return value
        from training.workloads.script.recipe import variable

        try:
            return variable(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _once(ctx: click.Context, param: click.Parameter, values: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the assignments by name. Fail if a name is given twice."""
    by_name: dict[str, str] = {}
    for name, value in values:
        if name in by_name:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        by_name[name] = value
    return by_name


stack = click.option(
    "--stack", type=StackName(), default=DEFAULT_STACK, show_default=True, help="Its settings: stacks/Pulumi.NAME.yaml."
)
settings = click.option(
    "--set", "settings", type=Assignment(), multiple=True, callback=_once, help="A setting for this call; repeatable."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON alone.")
variables = click.option(
    "--env", "variables", type=Variable(), multiple=True, callback=_once, help="A variable for the script; repeatable."
)


def assignments(metavar: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds an argument of one or more assignments to a command."""
    return click.argument("assignments", type=Assignment(), nargs=-1, required=True, callback=_once, metavar=metavar)


def of_script(*, required: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds the arguments and options that name a script and how it is run. The command's
    function gets them as `typed`."""
    parameters = (
        click.argument("script", type=FromHere())
        if required
        else click.argument("script", type=FromHere(), default=""),
        click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]"),
        click.option("--python", type=FromHere(or_program=True), default="", help="Its environment, or interpreter."),
        click.option("--workers", type=click.IntRange(min=1), help="One CPU each.  [default: 2]"),
        click.option("--kind", default="", help=f"One of {', '.join(KINDS)}; default: by what it imports."),
        variables,
    )

    def decorate(run: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(run)
        def with_typed(**parameters: Any) -> int:
            from cli.tryout.typed import Typed

            mine = {
                name: parameters.pop(name) for name in ("script", "arguments", "python", "workers", "kind", "variables")
            }
            return run(typed=Typed(**mine), **parameters)

        decorated: Callable[..., int] = with_typed
        for parameter in reversed(parameters):
            decorated = parameter(decorated)
        return decorated

    return decorate
