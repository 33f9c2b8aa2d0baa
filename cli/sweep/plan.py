"""The plan of a sweep: the settings to vary, their combinations, and the sweep's identity. Pure.

`make sweep WORKERS="1 2 3"`: make hands its command line on in MAKEFLAGS, so that any key can be named there without a
variable that happens to be in the environment being taken for one.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from cli.setup.project import ToolError
from cli.setup.usage import OF_EVERY_TARGET, typed
from infra.settings.removed import REMOVED
from infra.settings.table import every_key
from report.sweep import Point
from training.contract.recipe import canonical

ALIASES = {"WORKERS": "workers", "BATCH": "globalBatchSize", "EPOCHS": "epochs", "PRECISION": "precision"}
MAKES_OWN = frozenset({"STACK", "SET", "KEEP", *OF_EVERY_TARGET})

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z]\w*)=(?P<values>.*)", re.DOTALL)
_EXAMPLE = 'make sweep WORKERS="1 2 3", or with any other key: make sweep learningRate="0.001 0.01"'


def parse_axes(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys to vary and their values: from assignments given as words, from make's command line, or from ALIASES."""
    texts = {name: environment[name] for name in ALIASES if environment.get(name)}
    texts |= typed(environment.get("MAKEFLAGS", ""))
    texts = {name: values for name, values in texts.items() if name not in MAKES_OWN} | _assignments(words)
    axes: dict[str, list[str]] = {}
    for name, values in texts.items():
        key = _key(name)
        if key in axes:
            raise ToolError(f"{key} is given twice")
        axes[key] = _values(name, values)
    if not axes:
        raise ToolError(f"nothing to sweep over: {_EXAMPLE}")
    return axes


def _assignments(words: Sequence[str]) -> dict[str, str]:
    matches = [match for word in words if (match := _ASSIGNMENT.fullmatch(word))]
    return {match["name"]: match["values"] for match in matches}


def _key(name: str) -> str:
    """The config key of a name: an alias, the key itself, or the key in capitals (LEARNING_RATE)."""
    removed = {**{key: key for key in REMOVED}, **_in_capitals(REMOVED)}
    if name in removed:
        raise ToolError(REMOVED[removed[name]].refusal(name))
    known = {**{key: key for key in every_key()}, **_in_capitals(every_key()), **ALIASES}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        raise ToolError(f"{name} is no setting" + (f"; is {close[0]} meant?" if close else "") + f" Write {_EXAMPLE}")
    return known[name]


def _in_capitals(keys: Iterable[str]) -> dict[str, str]:
    return {re.sub(r"(?=[A-Z])", "_", key).upper(): key for key in keys}


def _values(name: str, text: str) -> list[str]:
    try:
        values = list(dict.fromkeys(shlex.split(text)))
    except ValueError as error:
        raise ToolError(f"{name}={text!r}: {error}; write {_EXAMPLE}") from None
    if not values:
        raise ToolError(f'{name}="{text}" names no value: {_EXAMPLE}')
    return values


def points_of(axes: Mapping[str, Sequence[str]]) -> list[Point]:
    """Return all combinations, the last axis first: `workers=1 epochs=1`, `workers=1 epochs=2`, `workers=2 epochs=1`"""
    return [Point(dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())]


def key_of(axes: Mapping[str, Sequence[str]], base: Mapping[str, str], shared: Mapping[str, str]) -> str:
    """Hash of what is asked for and of what all points share; equal keys are one sweep, begun earlier."""
    whole = {"axes": {name: list(values) for name, values in axes.items()}, "base": dict(base), "shared": dict(shared)}
    return hashlib.sha256(canonical(whole).encode()).hexdigest()
