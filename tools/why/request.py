"""Reads the variables of `make why`: those of `make try`, or else a stack's keys; arms, and how long to try."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from report.commands import settings_text
from tools.setup.project import ToolError
from tools.setup.usage import quoted
from tools.stack import config as stack_config
from tools.stack.config import KEYS_OF_TRY
from tools.tryout import request as of_try
from training.workloads.script import recipe
from training.workloads.script.commands import ARMS

DEFAULT_ARMS = ("native", "baseline")
LIMIT_SECONDS = 600
"""Of all arms together."""
EPOCHS = 1_000_000
"""Value of {epochs}: the run is ended when its rounds are enough."""


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
    if not values.get("SCRIPT") and values.get("STACK"):
        values |= _of_stack(values["STACK"], values.get("SET", ""))
    values.setdefault("LIMIT", str(LIMIT_SECONDS))
    arms = tuple(values.get("ARM", "").split()) or DEFAULT_ARMS
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise ToolError(f"ARM={' '.join(unknown)}: allowed are {', '.join(ARMS)}, or several of them")
    request = of_try.read({**values, "STEPS": "", "WRITE": ""}, "why")
    return WhyRequest(of_try=request, arms=arms, limit_seconds=request.limit_seconds, command=_command(environment))


def _command(environment: Mapping[str, str]) -> str:
    """Return the line with the variables that were given; make reads a `$` as its own, so it is doubled."""
    values = {name: environment.get(name, "") for name in (*of_try.VARIABLES, "ARM") if name != "STEPS"}
    values["ENV"] = _names_alone(values["ENV"])
    words = [f"{name}={quoted(value)}" for name, value in values.items() if value]
    if overrides := stack_config.parse_overrides(environment.get("SET", "")):
        if KEYS_OF_TRY["ENV"] in overrides:
            overrides[KEYS_OF_TRY["ENV"]] = _names_alone(overrides[KEYS_OF_TRY["ENV"]])
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
