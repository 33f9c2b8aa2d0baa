"""A number of the comparison: it is there, or it is `Missing` and says why; over repeats it brings its warning."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """Why a number, or what is made of numbers, is not there; "" where nothing asks for it."""

    reason: str


Value = float | Missing
"""A number, or why it is not there."""


@dataclass(frozen=True)
class Summary(Generic[T]):
    """What the repeats say of a number."""

    value: T | Missing
    """Spread or estimate."""
    warning: str = ""
    """Why some repeats say nothing of it, where others do."""


class Check(NamedTuple):
    """One thing that has to be so if runs are to be compared."""

    passed: bool | None
    """None: it is not known."""
    why: str
    """Why it is not True; "" if it is."""
