"""Keys of earlier versions: why they went, and what does their work now. Pure.

A stack's file that still has one is refused: another measurement than the one it describes would run in its place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """What took the place of one key, or of several together."""

    keys: tuple[str, ...]
    instead: str
    """What a user sets now; it follows `allowed:`."""
    why: str
    lines: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda _: ()
    """The command lines that follow the removal, from the removed keys' values; none if nothing needs to be set."""


REPLACEMENTS = (
    Replacement(
        keys=("dashboardNodePort",),
        instead="not set: `make dashboard` prints the address",
        why="Ray's dashboard answers at port 30265 of Minikube's nodes",
    ),
)
REMOVED = {key: replacement for replacement in REPLACEMENTS for key in replacement.keys}
"""What took the place of a removed key, by its name."""


def fixing_line(replacement: Replacement, values: Mapping[str, str]) -> str:
    """Return the command lines that remove its keys, and set what they meant; `values` are the texts of those set."""
    removals = [f"pulumi config rm {key}" for key in values]
    return " && ".join([*removals, *replacement.lines(values)])
