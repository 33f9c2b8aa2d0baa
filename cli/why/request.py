"""What `rwi why` is asked for: a script as `try` takes one, or else a stack's; arms, and how long to try."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cli.setup.project import ToolError
from cli.stack import config as stack_config
from cli.tryout import request as of_try
from cli.tryout import write
from cli.tryout.typed import Typed
from training.machine.command_line import assignment, rwi
from training.workloads.script import recipe
from training.workloads.script.commands import ARMS

DEFAULT_ARMS = ("native", "baseline")
LIMIT_SECONDS = 600
"""Most seconds for trying conditions, in all arms together."""
EPOCHS = 100_000
"""Value of {epochs}. It is large, because the run is ended when enough rounds are complete, but limited, because some
scripts make a list of all epochs or steps."""


@dataclass(frozen=True, kw_only=True)
class WhyRequest:
    """The checked arguments and options of a call of `rwi why`."""

    of_try: of_try.Request
    arms: tuple[str, ...]
    limit_seconds: int
    """Most seconds for trying conditions, in all arms together."""
    command: str
    """The command line of this call. Values of variables are left out, because they are often secret."""


def read(
    typed: Typed,
    *,
    arms: Sequence[str] = (),
    limit_seconds: int = LIMIT_SECONDS,
    stack: str = "",
    settings: Mapping[str, str] | None = None,
) -> WhyRequest:
    """Return the checked request. Raise ToolError for a wrong argument."""
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise ToolError(f"--arm {' --arm '.join(unknown)}: allowed are {', '.join(ARMS)}, or several of them")
    if not typed.script and not stack:
        raise ToolError(f"SCRIPT is missing: the file that trains, as in\n  {rwi('why')} {of_try.EXAMPLE}")
    whole = typed if typed.script else _of_stack(stack, settings or {}, typed)
    options = [word for arm in arms for word in ("--arm", arm)]
    options += ["--limit", str(limit_seconds)] * (limit_seconds != LIMIT_SECONDS)
    return WhyRequest(
        of_try=of_try.read(whole, limit_seconds=limit_seconds, stack=stack),
        arms=tuple(dict.fromkeys(arms)) or DEFAULT_ARMS,
        limit_seconds=limit_seconds,
        command=_without_secrets(typed).line("why", [*options, *_of_call(stack, settings or {})]),
    )


def _of_call(stack: str, settings: Mapping[str, str]) -> list[str]:
    """Return the options that name a stack, and its settings without secrets."""
    plain = {
        "environment": lambda text: " ".join(f"{name}=…" for name in recipe.variables(text)),
        "scriptArguments": lambda text: shlex.join(without_secrets(shlex.split(text))),
    }
    shown = {key: plain[key](text) if key in plain else text for key, text in settings.items()}
    words = [word for key, text in shown.items() for word in ("--set", assignment(key, text))]
    return [*words, *(["--stack", stack] if stack else [])]


def _without_secrets(typed: Typed) -> Typed:
    return replace(
        typed,
        arguments=tuple(without_secrets(typed.arguments)),
        variables=dict.fromkeys(typed.variables, "…"),
    )


def _of_stack(stack: str, settings: Mapping[str, str], typed: Typed) -> Typed:
    """Return the script that a stack's keys name, with typed values in place of the stack's. Raise ToolError if the
    stack has no script."""
    values = {**stack_config.config_of(stack), **settings}
    texts = {key.rpartition(":")[2]: str(value) for key, value in values.items()}
    if not texts.get("script"):
        line = f"{rwi('why')} {of_try.EXAMPLE}"
        raise ToolError(f"stack {stack} measures no script of yours; this tries one:\n  {line}")
    try:
        of_keys = Typed.of_keys(texts)
    except ValueError as error:
        raise ToolError(f"stack {stack}: {error}") from None
    return replace(of_keys, **{name: value for name, value in vars(typed).items() if value})


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with `…` in place of words that look like secrets."""
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
