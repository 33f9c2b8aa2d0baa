"""Says what was probably meant by a call that is wrong, with the line to type."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from cli.command import END, REST
from cli.setup.project import ROOT, stack_names
from training.machine import command_line

MISSPELT = 0.8
"""Least similarity (0 to 1) of a mistyped option and a known one at which the known one is suggested."""
LETTER = len("-s")
"""How long an option of one letter is."""
ASSIGNMENT = "key=value"
"""The name of the parameter type for arguments that set a key."""
NOT_ASKED = ("--yes", "-y")
"""Options that Pulumi has, and that nothing here needs."""
PROGRAMS = ("python", "torchrun", "accelerate", "uv", "mpirun", "deepspeed", "ray")
"""Programs that users type before a script, although nothing here needs them."""
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z][\w:.-]*)=(?P<value>.*)", re.DOTALL)


def setting_names() -> list[str]:
    """Return the settings that Pulumi.yaml declares, read without a YAML parser, whose import is slow."""
    text = (ROOT / "Pulumi.yaml").read_text(encoding="utf-8")
    block = re.search(r"^config:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^  ([A-Za-z]\w*):\s", block[1] if block else "", re.MULTILINE)


def in_words(error: click.UsageError, arguments: Sequence[str]) -> str:
    """Return a text that says what is wrong, what was probably meant, and which command shows more help."""
    context = error.ctx or click.Context(click.Command(""), info_name=command_line.rwi("").strip())
    is_said = isinstance(error, click.NoSuchCommand | click.NoSuchOption)
    what = error.message if is_said else error.format_message()
    meant = _meant(error, context, list(arguments))
    return "\n  ".join([what, *meant, f"{context.command_path} --help says what is allowed"])


def _meant(error: click.UsageError, context: click.Context, arguments: list[str]) -> list[str]:
    if isinstance(error, click.NoSuchCommand):
        return _of_command(error.command_name, context, arguments)
    if isinstance(error, click.NoSuchOption):
        return _of_option(error.option_name, context, arguments)
    extra = re.search(r"extra arguments? \((?P<words>.*)\)", error.format_message())
    if extra and extra["words"]:
        return _of_extra(extra["words"], context, arguments)
    if isinstance(error, click.MissingParameter):
        before, _, rest = _partition(arguments, END)
        return [_did_you_mean([*before, *_ending(rest[0], rest[1:])])] if rest else []
    if isinstance(error, click.BadParameter) and error.param and error.param.type.name == ASSIGNMENT:
        return _of_assignment(context, arguments)
    return []


def _of_command(name: str, context: click.Context, arguments: list[str]) -> list[str]:
    """Return a suggestion for an unknown command: a command in a group that has this name, an option with this name, or
    a command with a similar name."""
    commands = [path for path, _ in _commands(context)]
    close = difflib.get_close_matches(name.lower(), [path[0] for path in commands if len(path) == 1], n=1)
    meant = [
        *[path for path in commands if path[-1] == name],
        *[(option,) for option in _options(context) if option == f"--{name}"],
        *[(word,) for word in close],
    ]
    return _with(arguments, arguments.index(name), 1, meant[0] if meant else ())


def _of_option(option: str, context: click.Context, arguments: list[str]) -> list[str]:
    """Return a suggestion for an unknown option: a similar option, an option of another command, a setting, or an
    option of the script after `--`."""
    at = _position(option, arguments)
    name, equals, value = arguments[at].partition("=")
    own = _options(context)
    close = difflib.get_close_matches(option.lower(), own, n=1, cutoff=MISSPELT)
    if len(option) == LETTER and not _passes_on(context):  # -s is --stack, as Pulumi has it
        close = [each for each in own if each.startswith(f"-{option.lower()}")]
    if close:
        return _with(arguments, at, 1, [close[0] + name[len(option) :] + equals + value])
    if option in NOT_ASKED:
        return [_did_you_mean([*arguments[:at], *arguments[at + 1 :]])]
    if isinstance(context.command, click.Group):
        return _behind_command(option, context, arguments)
    used = 1 if equals else 2
    value = value if equals else "".join(arguments[at + 1 : at + 2])
    if option == "--set" and f"--{value.partition('=')[0]}" in own:
        return _with(arguments, at, used, ["--" + value.partition("=")[0], value.partition("=")[2]])
    key = "" if _passes_on(context) else _key(option.lstrip("-"))
    if key and (setting := _as_setting(context, key, value)):
        return _with(arguments, at, used, setting)
    having = [" ".join(path) for path, each in _commands(context.find_root()) if _takes(each, option)]
    hints = [f"{option} is an option of {', '.join(having)}"] if having else []
    return [*hints, *_of_script(context, arguments, at)]


def _behind_command(option: str, context: click.Context, arguments: list[str]) -> list[str]:
    """Return a suggestion for an option that was typed before the command that has it."""
    at = _position(option, arguments)
    above = arguments[: _depth(context)]
    for path, command in _commands(context):
        parameter = next((each for each in command.params if option in each.opts), None)
        if isinstance(parameter, click.Option):
            end = at + (1 if parameter.is_flag or "=" in arguments[at] else 2)
            words, rest = [*above, *path], arguments[end:]
            if rest[: len(path)] == list(path):
                return [_did_you_mean([*words, *arguments[at:end], *rest[len(path) :]])]
            if context.parent and not rest:
                return [_did_you_mean([*words, *arguments[at:end]])]
    return []


def _of_assignment(context: click.Context, arguments: list[str]) -> list[str]:
    """Return a suggestion for a setting typed with a blank between key and value, in one word or in several."""
    for at in range(_depth(context), len(arguments)):
        used = 1 if " " in arguments[at].strip() else 3 if arguments[at + 1 : at + 2] == ["="] else 2
        match = re.fullmatch(r"\s*([A-Za-z][\w:.-]*)[\s=]+(.+)", " ".join(arguments[at : at + used]))
        if match and not _ASSIGNMENT.fullmatch(arguments[at]) and (key := _key(match[1])):
            setting = [f"{key}={match[2]}"] if arguments[at - 1] == "--set" else _as_setting(context, key, match[2])
            return _with(arguments, at, used, setting)
    return []


def _of_extra(extra: str, context: click.Context, arguments: list[str]) -> list[str]:
    """Return a suggestion for extra words: settings without `--set`, a stack without `--stack`, or arguments of the
    script without `--`."""
    words = arguments[_depth(context) :]
    first = next((word for word in words if word and f"{extra} ".startswith(f"{word} ")), None)
    if first is None:
        return []
    at = arguments.index(first, _depth(context))
    assigned = [word for word in words if _ASSIGNMENT.fullmatch(word) and word in extra]
    if assigned and (line := _with_options(context, arguments, assigned)):
        return [_did_you_mean(line)]
    if first in stack_names() and _takes(context.command, "--stack"):
        return _with(arguments, at, 1, ["--stack", first])
    return _of_script(context, arguments, at) or _of_assignment(context, arguments)


def _of_script(context: click.Context, arguments: list[str], at: int) -> list[str]:
    """Return a suggestion that puts the script's arguments after `--`, or one without a program such as python before
    the script. Return an empty list if the command passes no arguments on."""
    if END in arguments[:at] or not _passes_on(context):
        return []
    program, file = arguments[_depth(context)], next((word for word in arguments if word.endswith(".py")), "")
    if file and Path(program).name.rstrip("0123456789.") in PROGRAMS:
        rest = _partition(arguments, file)[2]
        return [_did_you_mean([*arguments[: _depth(context)], *_ending(file, rest)])]
    return [f"what follows -- is passed on; {_did_you_mean([*arguments[:at], END, *arguments[at:]])}"]


def _with_options(context: click.Context, arguments: list[str], assigned: list[str]) -> list[str]:
    """Return the words with each assigned `NAME=value` replaced by an option of the command or by a setting. Return an
    empty list if one of them is neither."""
    words: list[str] = []
    for word in arguments:
        name, _, value = word.partition("=")
        if word not in assigned:
            words.append(word)
        elif _takes(context.command, f"--{name.lower()}"):
            words += [f"--{name.lower()}", *([] if value == "1" else [value])]
        elif (key := _key(name)) and (setting := _as_setting(context, key, value)):
            words += setting
        else:
            return []
    return words


def _as_setting(context: click.Context, key: str, value: str) -> list[str]:
    """Return the words with which a command takes a setting; empty if the command takes no settings."""
    if any(each.type.name == ASSIGNMENT and isinstance(each, click.Argument) for each in context.command.params):
        return [f"{key}={value}"]
    return ["--set", f"{key}={value}"] if _takes(context.command, "--set") else []


def _commands(context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands below a group, each with the words that name the command."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        if command := group.get_command(context, name):
            yield (name,), command
            yield from (((name, *path), each) for path, each in _commands(click.Context(command)))


def _passes_on(context: click.Context) -> bool:
    return any(each.name == REST for each in context.command.params)


def _depth(context: click.Context) -> int:
    """Return how many words name the command."""
    return 1 + _depth(context.parent) if context.parent else 0


def _partition(words: list[str], word: str) -> tuple[list[str], list[str], list[str]]:
    """Split a list of words at `word` into three lists, as `str.partition` splits a text."""
    at = words.index(word) if word in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


def _ending(script: str, arguments: list[str]) -> list[str]:
    """Return the end of a command line: the script, then `--` and the script's arguments if it has any."""
    return [script, *([END, *arguments] if arguments else [])]


def _options(context: click.Context) -> list[str]:
    return [each for parameter in context.command.params for each in parameter.opts if each[:2] == "--"]


def _takes(command: click.Command, option: str) -> bool:
    return any(option in each.opts for each in command.params)


def _position(option: str, arguments: list[str]) -> int:
    """Return the index of an option in the arguments. An option of one letter may have its value in the same word."""
    return next(
        at
        for at, word in enumerate(arguments)
        if word.partition("=")[0] == option or (len(option) == LETTER and word.startswith(option))
    )


def _key(name: str) -> str:
    """Return the setting whose name is similar, ignoring case, `-` and `_`; "" if there is no similar name."""
    plain = {re.sub(r"[-_]", "", key).lower(): key for key in setting_names()}
    close = difflib.get_close_matches(re.sub(r"[-_]", "", name).lower(), plain, n=1, cutoff=0.7)
    return plain[close[0]] if close else ""


def _with(arguments: list[str], at: int, used: int, words: Sequence[str]) -> list[str]:
    """Return a suggestion with `used` words from index `at` on replaced by others; empty if there are no others."""
    return [_did_you_mean([*arguments[:at], *words, *arguments[at + used :]])] if words else []


def _did_you_mean(words: Sequence[str]) -> str:
    return f"did you mean:  {command_line.rwi(shlex.join(words))}"
