"""Rules for settings: text to value, and what is allowed in words. Not tied to any one reader of settings."""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?(?:[0-9]{1,18}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
"""Patterns of numbers that every program reads in the same way: Python alone also reads 1_000, +2 and the digits of all
alphabets."""


@dataclass(frozen=True)
class Rule:
    """A rule for one setting: how its text is read, and which values are allowed.

    `parse` returns the value, and raises ValueError on text that is not allowed. `words` describe what is allowed; if
    they are a function, they are computed when they are needed.
    """

    parse: Callable[[str], Any]
    words: str | Callable[[], str]
    harmless: bool = False
    """Whether no allowed value tells anything private, as a number, a switch or a name from a list tells nothing."""

    @property
    def allowed(self) -> str:
        """Return a description of the allowed values."""
        return self.words if isinstance(self.words, str) else self.words()


def whole(low: int, high: int | None = None) -> Rule:
    """Return a rule that allows whole numbers from `low` to `high`, both included; without `high` there is no bound."""

    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError(text)
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError(text)
        return value

    allowed = f"a whole number from {low}" + (f" to {high}" if high is not None else " up")
    return Rule(parse, allowed, harmless=True)


def number(low: float, high: float, *, above: bool = False) -> Rule:
    """Return a rule that allows finite numbers from `low` to `high`; with `above`, `low` itself is not allowed."""

    def parse(text: str) -> float:
        if not _NUMBER.fullmatch(text.strip()):
            raise ValueError(text)
        value = float(text)
        if not math.isfinite(value) or value < low or value > high or (above and value == low):
            raise ValueError(text)
        return value

    allowed = f"a number {'above' if above else 'from'} {low:g}{' and' if above else ''} up to {high:g}"
    return Rule(parse, allowed, harmless=True)


def boolean() -> Rule:
    """Return a rule that allows true and false, as Pulumi writes them."""

    def parse(text: str) -> bool:
        return {"true": True, "false": False}[text.strip().lower()]

    def checked(text: str) -> bool:
        try:
            return parse(text)
        except KeyError:
            raise ValueError(text) from None

    return Rule(checked, "true or false", harmless=True)


def choice(*groups: Collection[str]) -> Rule:
    """Return a rule that allows the names in `groups`, which are looked up only when a value is read."""

    def parse(text: str) -> str:
        if not any(text.strip() in names for names in groups):
            raise ValueError(text)
        return text.strip()

    return Rule(parse, lambda: "one of " + ", ".join(name for names in groups for name in names), harmless=True)


def text(allowed: str = "any text") -> Rule:
    """Return a rule that allows any text; `allowed` describes what whoever reads the setting requires besides."""
    return Rule(lambda value: value, allowed)
