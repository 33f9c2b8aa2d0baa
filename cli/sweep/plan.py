"""The plan of a sweep: the settings to vary, their combinations, and the sweep's identity. Pure."""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections.abc import Mapping, Sequence

from cli.setup.project import ToolError
from cli.stack.change import refuse_unknown, refuse_wrong
from report.sweep import Point
from training.contract.recipe import canonical
from training.machine.command_line import rwi

_EXAMPLE = 'sweep workers="1 2 3" epochs="2 4"'


def parse_axes(typed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the keys to vary, each with its list of values, which are typed with blanks between them. Raise ToolError
    for an unknown key or a wrong value."""
    for name in typed:
        refuse_unknown(name, _EXAMPLE)
    return {name: _values(name, values) for name, values in typed.items()}


def _values(name: str, text: str) -> list[str]:
    try:
        values = list(dict.fromkeys(shlex.split(text)))
    except ValueError as error:
        raise ToolError(f"{name}={text!r}: {error}; as in  {rwi(_EXAMPLE)}") from None
    if not values:
        raise ToolError(f'{name}="{text}" names no value: {rwi(_EXAMPLE)}')
    for value in values:
        refuse_wrong(name, value, f"; blanks part the values:  {rwi(_EXAMPLE)}")
    return values


def points_of(axes: Mapping[str, Sequence[str]]) -> list[Point]:
    """Return all combinations of values, where the last axis varies first: `workers=1 epochs=1`, `workers=1 epochs=2`,
    `workers=2 epochs=1`."""
    return [Point(dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())]


def key_of(axes: Mapping[str, Sequence[str]], base: Mapping[str, str], shared: Mapping[str, str]) -> str:
    """Return a hash of the axes, of the settings that all points share, and of `shared`. An unfinished
    sweep with the same hash is the same sweep, begun earlier."""
    whole = {"axes": {name: list(values) for name, values in axes.items()}, "base": dict(base), "shared": dict(shared)}
    return hashlib.sha256(canonical(whole).encode()).hexdigest()
