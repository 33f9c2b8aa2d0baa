"""Reads the variables of `make why`: those of `make try`, or else a stack's keys; arms, and how long to try."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cli.setup.project import ToolError, checked_stack_name
from cli.setup.usage import quoted
from cli.stack import config as stack_config
from cli.stack.config import KEYS_OF_TRY
from cli.tryout import request as of_try
from cli.tryout import write
from report.commands import settings_text
from training.workloads.script import recipe
from training.workloads.script.commands import ARMS

DEFAULT_ARMS = ("native", "baseline")
LIMIT_SECONDS = 600
"""Of all arms together."""
EPOCHS = 100_000
"""Value of {epochs}: the run is ended when its rounds are enough. Not more: some scripts make a list of all epochs, or
of all their steps."""


@dataclass(frozen=True, kw_only=True)
class WhyRequest:
    """The variables, read."""

    of_try: of_try.Request
    arms: tuple[str, ...]
    limit_seconds: int
    """How long conditions may be tried, in all arms together."""
    command: str
    """The same again, as one types it; values of ENV are left out, which are often secret."""


def read(environment: Mapping[str, str] = os.environ) -> WhyRequest:
    """The request. Raises ToolError."""
    values = dict(environment)
    if values.get("STACK"):
        checked_stack_name(values["STACK"])  # it becomes a folder's name
    if not values.get("SCRIPT") and values.get("STACK"):
        typed = {name: values[name] for name in KEYS_OF_TRY if values.get(name)}
        values |= _of_stack(values["STACK"], values.get("SET", "")) | typed
    values.setdefault("LIMIT", str(LIMIT_SECONDS))
    arms = tuple(dict.fromkeys(values.get("ARM", "").split())) or DEFAULT_ARMS
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise ToolError(f"ARM={' '.join(unknown)}: allowed are {', '.join(ARMS)}, or several of them")
    request = of_try.read({**values, "STEPS": "", "WRITE": ""}, "why")
    return WhyRequest(of_try=request, arms=arms, limit_seconds=request.limit_seconds, command=_command(environment))


def _command(environment: Mapping[str, str]) -> str:
    """Return the line with the variables that were given; make reads a `$` as its own, so it is doubled."""
    values = {name: environment.get(name, "") for name in (*of_try.VARIABLES, "ARM") if name != "STEPS"}
    values |= {"ENV": _names_alone(values["ENV"]), "ARGS": _plain(values["ARGS"])}
    words = [f"{name}={quoted(value)}" for name, value in values.items() if value]
    if overrides := stack_config.parse_overrides(environment.get("SET", "")):
        plain = {KEYS_OF_TRY["ENV"]: _names_alone, KEYS_OF_TRY["ARGS"]: _plain}
        overrides = {name: plain[name](text) if name in plain else text for name, text in overrides.items()}
        words.insert(0, f"SET={settings_text(overrides)}")
    stack = f"STACK={environment['STACK']} " if environment.get("STACK") else ""
    return " ".join([f"{stack}make why", *words]).replace("$", "$$")


def _names_alone(variables: str) -> str:
    """`A=1 B=2` as `A=… B=…`."""
    return " ".join(f"{name}=…" for name in recipe.variables(variables))


def _of_stack(stack: str, overrides: str) -> dict[str, str]:
    """Return the variables that mean a stack's keys. Raises ToolError for one that measures no script."""
    values = {**stack_config.config_of(stack), **stack_config.parse_overrides(overrides)}
    texts = {key.rpartition(":")[2]: str(value) for key, value in values.items()}
    if not texts.get("script"):
        raise ToolError(f"stack {stack} measures no script of yours; `make why` tries one:\n  make why {of_try.USAGE}")
    return {name: texts[key] for name, key in KEYS_OF_TRY.items() if texts.get(key)}


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return arguments with `…` instead of what looks like a secret."""
    return [
        _without_secret(word, name=before if before.startswith("-") and "=" not in before else "")
        for before, word in pairwise(["", *arguments])
    ]


def _without_secret(word: str, name: str) -> str:
    if "=" in word and write.is_secret(word):
        return f"{word.partition('=')[0]}=…"
    if word.startswith("-"):
        return word
    return "…" if write.is_secret(word) or write.is_secret(f"{name}={word}" if name else "") else word


def _plain(arguments: str) -> str:
    """Return ARGS as they were typed, or without the secrets in them."""
    words = shlex.split(arguments)
    plain = without_secrets(words)
    return arguments if words == plain else shlex.join(plain)
