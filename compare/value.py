"""A number of the comparison, or why it is `Missing`; over the repeats with a warning if some of them lack it."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """Why a number, or something computed from numbers, is missing."""

    reason: str


Value = float | Missing
"""A number, or why it is not there."""


@dataclass(frozen=True)
class Summary(Generic[T]):
    """What the repeats say of a number."""

    value: T | Missing
    """The spread or the estimate over the repeats, or why it is missing."""
    warning: str = ""
    """Why some repeats have no value, if others have one."""


class Check(NamedTuple):
    """One condition that has to hold if runs are to be compared."""

    passed: bool | None
    """Whether the condition holds; None if that is not known."""
    why: str
    """Why `passed` is not True; "" if it is."""
