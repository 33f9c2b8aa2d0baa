"""The door: the commands of `./rwi` in their groups, and how what was typed wrong is answered.

A command is a module of `cli.commands`, imported when it is called or shown. Each imports what it needs when it runs.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import click
from click import shell_completion

from cli import meant
from cli.command import NAME, ONLY_PARSE, call_of
from cli.setup.project import need_tests, project_version, run_main, say
from training.machine import command_line

SECTIONS = {
    "Measure": ("up", "preview", "set", "sweep", "destroy"),
    "Your script": ("try", "why", "compare-commits"),
    "Look": ("outputs", "report", "status", "doctor"),
    "On a cluster": ("jobs",),
    "Develop": ("bench", "check", "test", "project"),
}
WIDEST = max(map(len, SECTIONS))
FIRST = (
    ("try ../mine/train.py --python ../mine/.venv", "your script, each way"),
    ("up", "the built-in example"),
)
CHECKED = ("up", "preview", "sweep")
"""Commands that refuse wrong settings before they do anything."""
USAGE_STATUS = 2
"""Exit status of a call with wrong options or arguments, after which nothing was done."""
PROGRAM = "rwi"
COMPLETE = "_RWI_COMPLETE"
"""The environment's variable with which a shell asks for completion."""
MODULES = {"try": "try_script", "set": "set_keys", "compare-commits": "compare_commits"}
"""Names of modules by command, for those modules whose names differ from their commands."""


@shell_completion.add_completion_class
class Zsh(shell_completion.ZshComplete):
    """Completion in zsh for a program that is called by its path. Click's own completion looks for the program on PATH,
    and needs zsh's completion to be set up, which is not the case on macOS."""

    source_template = (
        shell_completion.ZshComplete.source_template.replace("(( ! $+commands[%(prog_name)s] )) && return 1", "")
        .replace("zsh_complete %(prog_name)s", "zsh_complete ${~words[1]}")
        .replace(
            "    compdef ", "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n    compdef "
        )
    )


class Door(click.Group):
    """The group of all commands; each command is a module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their groups."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported from its module; None if there is no command of this name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"cli.commands.{MODULES.get(cmd_name, cmd_name)}").run
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, grouped by purpose, and short enough for a terminal of 24 lines."""
        with formatter.indentation():
            formatter.write_dl([(command_line.rwi(line), text) for line, text in FIRST], col_max=formatter.width)
        formatter.write_paragraph()
        rows = []
        for section, names in SECTIONS.items():
            heading = section
            for name in names:
                if command := self.get_command(ctx, name):
                    rows.append((f"{heading:<{WIDEST}}  {name}", command.get_short_help_str(formatter.width)))
                    heading = ""
        formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, but not the options that every command has."""
        self.format_commands(ctx, formatter)


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        print(project_version())
        ctx.exit()


@click.command(
    cls=Door,
    options_metavar="",
    subcommand_metavar="COMMAND [OPTIONS]        (each has its own --help)",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version)
def door() -> None:
    """Is distributed training with Ray worth it for your training, here?"""


def parse(words: Sequence[str], **kwargs: Any) -> click.Context:
    """Return the context of the command that the words name, with its parameters; nothing is run. Raise
    click.UsageError if no command takes these words."""
    context: click.Context = door.main(
        list(words), **{"prog_name": "./rwi", "standalone_mode": False, **kwargs}, obj=ONLY_PARSE
    )
    return context


def check(arguments: Sequence[str]) -> int:
    """Return 0 if the command would begin; otherwise print an error for wrong words, as `run` does. Raise ToolError for
    settings of a measurement that their own rules refuse, and for a part that a wheel lacks. Nothing is imported beyond
    what `rwi try` needs."""
    return run(arguments, _checked)


def _checked(words: list[str], **kwargs: Any) -> int:
    context = parse(words, **kwargs)
    if context.command.name in ("check", "test"):
        need_tests()
    if context.command.name in CHECKED:
        from cli.stack import settings
        from cli.sweep.plan import parse_axes, points_of

        os.environ[NAME], typed = call_of(context), context.params
        for point in points_of(parse_axes(typed.get("assignments", {}))):  # one without axes
            settings.refuse_wrong(typed["stack"], {**typed["settings"], **point.settings})
    return 0


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the command line, and end the process."""
    run_main(partial(run, arguments))


def run(arguments: Sequence[str], parse: Callable[..., Any] = door.main) -> int:
    """Parse the command line and run its command. Return the exit status of a call that ends without a command: help,
    completion, or wrong words."""
    try:
        # Shells look up what completes `../x/rwi` by the last part of the path.
        name = PROGRAM if COMPLETE in os.environ else command_line.rwi("").strip()
        return int(parse(list(arguments), prog_name=name, complete_var=COMPLETE, standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
    except click.UsageError as error:
        say(f"error: {meant.in_words(error, arguments)}")
        return USAGE_STATUS
    except click.Abort:
        return 130
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
