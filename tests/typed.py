"""Commands as they are typed, in this process: parsed as `./rwi` does, with errors raised instead of printed."""

from dataclasses import fields
from typing import Any
from unittest.mock import patch

from cli.door import parse
from cli.setup import bootstrap
from cli.tryout import request as of_try
from cli.tryout.typed import Typed
from cli.why import request as of_why


def typed(*words: str) -> int:
    """Run a command; the exit status. Nothing is installed for it. Raises what it raises."""
    context = parse(words)
    assert context.command.callback
    with patch.object(bootstrap, "ensure"), context:
        return int(context.invoke(context.command.callback, **context.params) or 0)


def tried(*words: str) -> of_try.Request:
    """Return what `rwi try` with these words asks for."""
    given = parse(["try", *words]).params
    return of_try.read(_script(given), steps=given["steps"], limit_seconds=given["limit"], writes=given["writes"],
                       stack=given["stack"])  # fmt: skip


def asked_why(*words: str) -> of_why.WhyRequest:
    """Return what `rwi why` with these words asks for."""
    given = parse(["why", *words]).params
    return of_why.read(_script(given), arms=given["arms"], limit_seconds=given["limit"], stack=given["stack"],
                       settings=given["settings"])  # fmt: skip


def _script(given: dict[str, Any]) -> Typed:
    return Typed(**{each.name: given[each.name] for each in fields(Typed)})
