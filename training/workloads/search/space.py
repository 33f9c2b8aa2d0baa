"""The space that a search goes over: parsed from its JSON text, and what is drawn from it.

A configuration is drawn by `random.Random.random` alone, whose sequence Python keeps for a seed, and rounded: so every
machine has the same ones in the same order. Standard library only, but for Optuna's own form of a space.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from random import Random
from typing import Any, Literal, Self, get_args

from training.contract.recipe import canonical
from training.workloads.script.recognise import PLACEHOLDERS

Kind = Literal["log", "float", "int", "choice"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Value = str | int | float
ALLOWED = (
    'JSON: names with {"log": [low, high]}, {"float": [low, high]}, {"int": [low, high]} or {"choice": [values]}, '
    "values that are numbers and texts"
)
"""Description of the allowed spaces."""
RESERVED = (*PLACEHOLDERS, "port", "checkpoint")
"""Placeholders with a meaning of their own, which can't be names in a search space."""
EXAMPLE: Mapping[str, Any] = {"log": [0.0001, 0.1]}
"""An example of a range, for a name whose range is unknown; the user is to change it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_MOST_NAMES, _MOST_VALUES = 50, 1000
_LEAST, _MOST = 1e-18, 1e18
"""Least bound of a logarithmic range, and greatest bound of any range except `int`."""
_MOST_WHOLE = 2**53
"""Greatest bound of `int`, because a draw is made from a float, which holds every whole number up to this one."""
_NEAREST = 1e-9
"""Least width of a range, as a share of its larger bound; a narrower range has too few numbers to draw."""
_DIGITS = 5
"""Digits after the first to which a drawn number is rounded."""


def is_name(text: str) -> bool:
    """Return whether a text can be a name in a search space, and so a placeholder in the script's arguments."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED


class SpaceError(ValueError):
    """A text that is no valid search space: the message says why; `instead` is what was probably meant, or ""."""

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A list of values, all equally likely."""

    values: tuple[Value, ...]

    @property
    def count(self) -> float:
        """Return the number of values."""
        return len(self.values)

    def within(self, value: Value) -> Value:
        """Return the value, as another search (Ray's) only changes it to another of these."""
        return value

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, from 0 to less than 1."""
        return self.values[int(share * len(self.values))]

    def distribution(self) -> Any:
        """Return these values as Optuna's distribution."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A range of whole numbers, including both bounds."""

    low: int
    high: int

    @property
    def count(self) -> float:
        """Return the number of values."""
        return self.high - self.low + 1

    def within(self, value: Value) -> Value:
        """Return a value that another search (Ray's) has changed, rounded and moved within the bounds."""
        return min(max(round(float(value)), self.low), self.high)

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, from 0 to less than 1."""
        return min(self.low + int(share * (self.high - self.low + 1)), self.high)

    def distribution(self) -> Any:
        """Return the range as Optuna's distribution."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """A range of numbers, including both bounds, all equally likely or, with `log`, each order of magnitude."""

    low: float
    high: float
    log: bool

    @property
    def count(self) -> float:
        """Return infinity, because the range has no end of numbers."""
        return math.inf

    def within(self, value: Value) -> Value:
        """Return a value that another search (Ray's) has changed, within the bounds, and rounded as a drawn one."""
        number, width = min(max(float(value), self.low), self.high), self.high - self.low
        return self._rounded(number, width, *([number] if self.log else []))

    def at(self, share: float) -> Value:
        """Return the number at a share of the range, from 0 to less than 1, rounded. The last digits of a logarithm
        differ between machines; a number of six digits is as good to try, and can be read."""
        width = self.high - self.low
        if not self.log:
            return self._rounded(self.low + share * width, width)
        begin, end = math.log(self.low), math.log(self.high)
        value = math.exp(begin + share * (end - begin))
        return self._rounded(value, width, value)

    def _rounded(self, value: float, *scales: float) -> float:
        digits = max(_DIGITS - Decimal(scale).adjusted() for scale in scales)
        return min(max(round(value, digits), self.low), self.high) + 0.0  # which makes 0 of -0

    def distribution(self) -> Any:
        """Return the range as Optuna's distribution."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log)


Range = Choice | Whole | Numbers


@dataclass(frozen=True, kw_only=True)
class Space:
    """What a search tries: a range for each name, in alphabetical order."""

    ranges: Mapping[str, Range]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the search space that a JSON text describes. Raise SpaceError if the text is not a valid space."""
        space = _names(text)
        return cls(ranges={name: _range(name, space) for name in sorted(space)})

    @property
    def count(self) -> float:
        """Return the number of configurations; infinite where a range has no end of numbers."""
        return math.prod(each.count for each in self.ranges.values())

    def draw(self, seed: int, trials: int) -> list[dict[str, Value]]:
        """Return the configurations of a search, drawn by the seed, none of them twice; with more `trials`, the first
        ones stay the same. Raise ValueError if the space has fewer configurations."""
        if trials > self.count:
            raise ValueError(f"{trials} trials, and the space has {self.count:g} configurations")
        random = Random(seed)  # noqa: S311 (it draws configurations, no secret)
        drawn: dict[str, dict[str, Value]] = {}
        while len(drawn) < trials:
            configuration = {name: each.at(random.random()) for name, each in self.ranges.items()}
            drawn.setdefault(canonical(words(configuration)), configuration)
        return [*drawn.values()]

    def within(self, configuration: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of a configuration that another search (Ray's) has changed, moved within the space."""
        return {name: self.ranges[name].within(value) for name, value in configuration.items()}

    def distributions(self) -> dict[str, Any]:
        """Return Optuna's distributions by name."""
        return {name: each.distribution() for name, each in self.ranges.items()}


def canonical_space(text: str) -> str:
    """Return the canonical JSON text of a search space; an invalid text only loses the blanks around it."""
    try:
        Space.parse(text)
    except SpaceError:
        return text.strip()
    return canonical(json.loads(text))


def words(configuration: Mapping[str, Value]) -> dict[str, str]:
    """Return the text that replaces each name in a script's arguments.

    Numbers have no exponent: argparse takes `-1e-05` after an argument for another argument.
    """
    return {name: _word(value) for name, value in configuration.items()}


def _word(value: Value) -> str:
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)


def replaced(arguments: Sequence[str], configuration: Mapping[str, Value]) -> list[str]:
    """Return the arguments with their placeholders replaced by the values of a configuration, all at once, because a
    value may look like a placeholder."""
    texts = words(configuration)
    return [re.sub(r"\{(\w+)\}", lambda match: texts.get(match[1], match[0]), argument) for argument in arguments]


def _names(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, which gives each name its range. Raise SpaceError for another text."""
    try:
        space = json.loads(text, object_pairs_hook=_each_once, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise SpaceError(f"it is no JSON: {error}") from None
    except RecursionError:
        raise SpaceError("it is nested too deeply") from None
    except ValueError as error:  # more digits than Python reads
        raise (error if isinstance(error, SpaceError) else SpaceError("it has a number that is too long")) from None
    if not isinstance(space, dict):
        raise SpaceError("it is no JSON object, which begins with {")
    if not 0 < len(space) <= _MOST_NAMES:
        raise SpaceError(f"it has {len(space)} names: from 1 to {_MOST_NAMES} are allowed")
    for name in space:
        if not _NAME.fullmatch(name):
            raise SpaceError(f"{_shown(name)} is no name: allowed are 40 letters, digits and _, without a digit first")
        if name in RESERVED:
            raise SpaceError(f"{{{name}}} stands for something else in scriptArguments, as do {', '.join(RESERVED)}")
    return space


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for name, value in pairs:
        if name in by_name:
            raise SpaceError(f"it has {_shown(name)} twice")
        by_name[name] = value
    return by_name


def _refuse_constant(text: str) -> None:
    raise SpaceError(f"{text} is no number to try")


def _range(name: str, space: Mapping[str, Any]) -> Range:
    """Return the range of a name. Raise SpaceError, with an example range at least, if it is not valid."""
    try:
        return _parsed(name, space)
    except SpaceError as error:
        raise SpaceError(str(error), error.instead or _with(space, name, EXAMPLE)) from None


def _parsed(name: str, space: Mapping[str, Any]) -> Range:
    wanted = space[name]
    kind = next((each for each in KINDS if isinstance(wanted, dict) and [*wanted] == [each]), None)
    if kind is None:
        raise SpaceError(f"{name} has {_shown(wanted)}: allowed is one of {', '.join(KINDS)}, with a list")
    if not isinstance(wanted[kind], list):
        raise SpaceError(f"{name} has {kind} {_shown(wanted[kind])}: allowed is a list, in []")
    return _choice(name, space) if kind == "choice" else _between(name, kind, space)


def _choice(name: str, space: Mapping[str, Any]) -> Choice:
    values = space[name]["choice"]
    if not 0 < len(values) <= _MOST_VALUES:
        raise SpaceError(f"{name} has a choice of {len(values)} values: from 1 to {_MOST_VALUES} are allowed")
    for value in values:
        if not _is_number(value) and not _is_word(value):
            raise SpaceError(f'{name} has the choice {_shown(value)}: allowed are numbers, and texts as "true"')
    distinct, twins = _distinct(values)
    if twins:
        raise SpaceError(
            f"{name} has the choices {' and '.join(map(_shown, twins))}: for a script they are one, so trials "
            "would be the same",
            _with(space, name, {"choice": distinct}),
        )
    return Choice(values=tuple(values))


def _distinct(values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return the values without those that a script can't tell from another value, and the first two values that it
    can't tell apart. Two texts are the same if they differ only in blanks around them; a number is the same as a text
    that says the number."""
    alike, distinct, twins = dict[str | Decimal, list[Value]](), list[Value](), list[Value]()
    for value in values:
        word = _word(value).strip()
        group = alike.setdefault(_read(word), [])
        for each in group:
            if _word(each).strip() == word or not (isinstance(value, str) and isinstance(each, str)):
                twins = twins or [each, value]
                break
        else:
            group.append(value)
            distinct.append(value)
    return distinct, twins


def _read(word: str) -> str | Decimal:
    """Return the number that a text says; the text itself if it says no number."""
    with suppress(InvalidOperation):
        number = Decimal(word)
        return number if number.is_finite() else word
    return word


def _between(name: str, kind: Kind, space: Mapping[str, Any]) -> Range:
    bounds = space[name][kind]
    what = f"{name} has {kind} {_shown(bounds)}"
    if len(bounds) != 2 or not all(map(_is_number, bounds)):
        raise SpaceError(f"{what}: allowed are two numbers, the least and the greatest")
    low, high = bounds
    if kind == "int" and not all(isinstance(bound, int) for bound in bounds):
        raise SpaceError(f"{what}: allowed are whole numbers", _with(space, name, {"float": bounds}))
    if low > high:
        raise SpaceError(f"{what}: the least number comes first", _with(space, name, {kind: [high, low]}))
    if low == high:
        raise SpaceError(f"{what}: there is nothing between them", _with(space, name, {"choice": [low]}))
    if kind == "log" and low <= 0:
        raise SpaceError(
            f"{what}: the bounds of a logarithmic range are above 0", _with(space, name, {"float": bounds})
        )
    least, most = {"int": (-_MOST_WHOLE, _MOST_WHOLE), "float": (-_MOST, _MOST), "log": (_LEAST, _MOST)}[kind]
    if low < least or high > most:
        raise SpaceError(f"{what}: allowed are bounds from {least:.16g} to {most:.16g}")
    if kind == "int":
        return Whole(low=low, high=high)
    if high - low < max(_LEAST, _NEAREST * max(abs(low), abs(high))):
        raise SpaceError(f"{what}: its bounds are too near each other", _with(space, name, {"choice": bounds}))
    return Numbers(low=float(low), high=float(high), log=kind == "log")


def _is_word(value: object) -> bool:
    """Return whether a value is a text that can be an argument; one with braces would be replaced there."""
    return isinstance(value, str) and value.isprintable() and not set("{}") & set(value)


def _is_number(value: object) -> bool:
    """Return whether a value is a number that a range can have; true, false and infinity are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def _with(space: Mapping[str, Any], name: str, range_: Mapping[str, Any]) -> str:
    """Return the JSON text of the search space with another range for a name."""
    return json.dumps({**space, name: range_})


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
