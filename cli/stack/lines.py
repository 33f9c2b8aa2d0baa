"""Command lines for somebody who uses make: what `pulumi config …` would change, without pulumi on PATH.

A value of `SET` is changed there; any other in the stack's file, by `make set`. Secrets are asked for by pulumi itself.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from cli.setup.project import DEFAULT_STACK
from cli.setup.usage import quoted
from infra.settings.table import every_key

GOALS = "GOALS"
"""The variable in which make says what it was called for."""
PLACEHOLDER = "…"
"""For a value that the user has to know."""
_COMMAND = re.compile(r"pulumi (?:config (?:set|rm)|refresh)\b[^`\n]*?(?=\s{4,}\(|\s*`|\s*\x1b|\s*$)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z]\w*")


def for_make(text: str, stack: str, overrides: Mapping[str, str]) -> str:
    """A message whose `pulumi …` lines are ones of make, for a call with these values in SET."""
    return _COMMAND.sub(lambda match: _line(match[0], stack, overrides), text)


def _line(command: str, stack: str, overrides: Mapping[str, str]) -> str:
    before = "" if stack == DEFAULT_STACK else f"STACK={quoted(stack)} "
    changes = _changes(command)
    if changes is None:
        return f'eval "$({before}make -s env)" && {command}'
    if changes.keys() & overrides.keys():
        return _with_set(before, {**overrides, **changes})
    words = (f"{key}={_typed(value) if value else ''}" for key, value in changes.items())
    return f"{before}make set {' '.join(words)}"


def _with_set(before: str, values: Mapping[str, str | None]) -> str:
    """The same call; a key that is to be removed has its default, or is left out where there is none."""
    known = every_key()
    texts = {key: known[key].default if value is None and key in known else value for key, value in values.items()}
    setting = quoted(_for_make(" ".join(f"{key}={shlex.quote(text)}" for key, text in texts.items() if text)))
    goals = os.environ.get(GOALS, "")
    call = f"{before}make {goals}" if goals else ""
    return f"{call} SET={setting}".strip() if any(texts.values()) else call or "leave SET out"


def _typed(value: str) -> str:
    return value if value == PLACEHOLDER else quoted(_for_make(value))


def _for_make(value: str) -> str:
    return value.replace("$", "$$")


def _changes(command: str) -> dict[str, str | None] | None:
    """Return the new values by key, None for a removed key; None if only pulumi can run the command."""
    changes: dict[str, str | None] = {}
    for part in command.split(" && "):
        try:
            words = [word for word in shlex.split(part) if word != "--"]
        except ValueError:
            return None
        verb, key, value = [*words[2:], *3 * [PLACEHOLDER]][:3]
        if words[:2] != ["pulumi", "config"] or not _NAME.fullmatch(key) or len(words) > (5 if verb == "set" else 4):
            return None
        changes[key] = value if verb == "set" else None
    return changes
