"""What was probably meant by a call that can't be: words for it, with the line to type."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Sequence

import click

from cli.command import END, REST
from cli.setup.project import ROOT
from training.machine import command_line

MISSPELT = 0.8
"""How alike an option and a word are, of which the one is meant by the other."""
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z][\w:.-]*)=(?P<value>.*)", re.DOTALL)


def setting_names() -> list[str]:
    """Return the settings that Pulumi.yaml declares, read without a YAML parser, whose import takes a while."""
    text = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8")
    block = re.search(r"^config:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^  ([A-Za-z]\w*):\s", block[1] if block else "", re.MULTILINE)


def in_words(error: click.UsageError, arguments: Sequence[str]) -> str:
    """Return what is wrong, what was probably meant, and where the rest is hint."""
    command = error.ctx.command_path if error.ctx else command_line.rwi("").strip()
    lines = _meant(error, list(arguments))
    is_said = isinstance(error, click.NoSuchCommand) or (bool(lines) and isinstance(error, click.NoSuchOption))
    lines = [error.message if is_said else error.format_message(), *lines, f"{command} --help says what is allowed"]
    return "\n  ".join(lines)


def _meant(error: click.UsageError, arguments: list[str]) -> list[str]:
    if isinstance(error, click.NoSuchCommand):
        return _of_command(error, arguments)
    if isinstance(error, click.NoSuchOption):
        return _of_option(error, arguments)
    extra = re.search(r"extra arguments? \((?P<words>.*)\)", error.format_message())
    if not extra:
        return []
    assigned = [word for word in arguments if _ASSIGNMENT.fullmatch(word) and word in extra["words"]]
    if assigned:
        return [f"did you mean:  {line}" for line in [_with_options(error, arguments, assigned)] if line]
    return _of_script(error, arguments, extra["words"].split()[0])


def _of_command(error: click.NoSuchCommand, arguments: list[str]) -> list[str]:
    """The command of a group that has this name, or the one that is spelt nearly so, with what else was typed."""
    context, name = error.ctx, error.command_name
    if not context or not isinstance(context.command, click.Group):
        return []
    names = context.command.list_commands(context)
    at = arguments.index(name)
    for each in names:
        group = context.command.get_command(context, each)
        if isinstance(group, click.Group) and name in group.list_commands(context):
            return [f"did you mean:  {_line([*arguments[:at], each, *arguments[at:]])}"]
    close = difflib.get_close_matches(name, names, n=1)
    return [f"did you mean:  {_line([*arguments[:at], close[0], *arguments[at + 1 :]])}"] if close else []


def _of_option(error: click.NoSuchOption, arguments: list[str]) -> list[str]:
    """An option that is misspelt, or a setting, or an argument of the script before which `--` was forgotten."""
    own = [name for each in (error.ctx.command.params if error.ctx else []) for name in each.opts if name[:2] == "--"]
    if close := difflib.get_close_matches(error.option_name, own, n=1, cutoff=MISSPELT):
        at = next(index for index, word in enumerate(arguments) if word.partition("=")[0] == error.option_name)
        right = arguments[at].replace(error.option_name, close[0], 1)
        return [f"did you mean:  {_line([*arguments[:at], right, *arguments[at + 1 :]])}"]
    if hint := _of_script(error, arguments, error.option_name):
        return hint
    key = _key(error.option_name.lstrip("-"))
    if not key or not _takes(error.ctx, "--set"):
        return []
    at = next(index for index, word in enumerate(arguments) if word.partition("=")[0] == error.option_name)
    _, equals, value = arguments[at].partition("=")
    after = at + 1 if equals else at + 2
    value = value if equals else "".join(arguments[at + 1 : at + 2])
    return [f"did you mean:  {_line([*arguments[:at], '--set', f'{key}={value}', *arguments[after:]])}"]


def _of_script(error: click.UsageError, arguments: list[str], first: str) -> list[str]:
    """Say that a script's arguments follow `--`, in a command that has some."""
    at = next((index for index, word in enumerate(arguments) if word.partition("=")[0] == first), None)
    has_script = error.ctx and any(each.name == REST for each in error.ctx.command.params)
    if at is None or not has_script or END in arguments[:at]:
        return []
    return [f"what follows -- is the script's; did you mean:  {_line([*arguments[:at], END, *arguments[at:]])}"]


def _with_options(error: click.UsageError, arguments: list[str], assigned: list[str]) -> str:
    """Return the line with `NAME=value` as options: one of the command, else a setting; "" for what is neither."""
    words: list[str] = []
    for word in arguments:
        match = _ASSIGNMENT.fullmatch(word) if word in assigned else None
        if not match:
            words.append(word)
        elif _takes(error.ctx, f"--{match['name'].lower()}"):
            words += [f"--{match['name'].lower()}", *([] if match["value"] == "1" else [match["value"]])]
        elif (key := _key(match["name"])) and _takes(error.ctx, "--set"):
            words += ["--set", f"{key}={match['value']}"]
        else:
            return ""
    return _line(words)


def _takes(context: click.Context | None, option: str) -> bool:
    return context is not None and any(option in each.opts for each in context.command.params)


def _key(name: str) -> str:
    """Return the setting that a name is near to, whatever its case, `-` and `_`; "" for none."""
    plain = {re.sub(r"[-_]", "", key).lower(): key for key in setting_names()}
    close = difflib.get_close_matches(re.sub(r"[-_]", "", name).lower(), plain, n=1, cutoff=0.7)
    return plain[close[0]] if close else ""


def _line(words: Sequence[str]) -> str:
    return command_line.rwi(shlex.join(words))
