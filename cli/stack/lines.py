"""Replaces lines of plain pulumi by lines of `rwi`, for which pulumi need not be on PATH.

A setting that the call has itself is changed in the call, and so are the alternatives to that; any other setting in the
stack's file by `rwi set`. For a secret the line runs pulumi, which asks for it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from cli.command import NAME
from cli.setup.project import ROOT
from infra.settings.table import every_key
from training.machine.command_line import FROM, assignment, quoted, rwi

PLACEHOLDER = "…"
"""Stands for a value that only the user knows."""
_COMMAND = re.compile(r"pulumi (?:config (?:set|rm)|refresh)\b[^`\n]*?(?=\s{4,}\(|\s*`|\s*\x1b|\s*$)", re.MULTILINE)
_FIXES = re.compile(r"(?:^[ \t]*(?:fix|or): .*\n?)+", re.MULTILINE)
"""The lines of one problem, of which each is enough."""
_KEY = re.compile(r"[A-Za-z]\w*")


def for_rwi(text: str, stack: str, overrides: Mapping[str, str]) -> str:
    """Return a message with its `pulumi …` lines replaced by lines of `rwi`, for a call with these settings."""

    def replaced(text: str, *, in_call: bool = False) -> str:
        return _COMMAND.sub(lambda match: _line(match[0], stack, overrides, in_call=in_call), text)

    def fixes(match: re.Match[str]) -> str:
        changes = [_changes(command) or {} for command in _COMMAND.findall(match[0])]
        return replaced(match[0], in_call=any(each.keys() & overrides.keys() for each in changes))

    return replaced(_FIXES.sub(fixes, text))


def plain(command: str, stack: str) -> str:
    """Return the shell line that runs `pulumi` in the project's environment, from where `rwi` was called."""
    folder = Path(os.environ.get(FROM) or ROOT)
    if not folder.is_relative_to(ROOT):
        command = re.sub(r"(^|&& )pulumi ", rf"\1pulumi -C {quoted(os.path.relpath(ROOT, folder))} ", command)
    return f'eval "$({rwi("project env", stack)})" && {command}'


def _line(command: str, stack: str, overrides: Mapping[str, str], *, in_call: bool) -> str:
    changes = _changes(command)
    if changes is None:
        return plain(command, stack)
    if in_call or changes.keys() & overrides.keys():
        return _of_call(stack, {**overrides, **changes})
    return rwi(" ".join(["set", *(assignment(key, value or "") for key, value in changes.items())]), stack)


def _of_call(stack: str, values: Mapping[str, str | None]) -> str:
    """Return this call's line with changed values. A removed key gets its default, or is left out if it has none."""
    known, call = every_key(), os.environ.get(NAME, "up")
    swept = {word.partition("=")[0] for word in shlex.split(call)}
    texts = {key: known[key].default if value is None and key in known else value for key, value in values.items()}
    return rwi(call, stack, {key: text for key, text in texts.items() if text and key not in swept})


def _changes(command: str) -> dict[str, str | None] | None:
    """Return the new values by key that a `pulumi config` command sets, None for a key that it removes. Return None if
    only pulumi can run the command."""
    changes: dict[str, str | None] = {}
    for part in command.split(" && "):
        try:
            words = [word for word in shlex.split(part) if word != "--"]
        except ValueError:
            return None
        verb, key, value = [*words[2:], *3 * [PLACEHOLDER]][:3]
        if words[:2] != ["pulumi", "config"] or not _KEY.fullmatch(key) or len(words) > (5 if verb == "set" else 4):
            return None
        changes[key] = value if verb == "set" else None
    return changes
