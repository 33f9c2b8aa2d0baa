"""JSON of dataclasses, checked as it is read, and files that are written whole. Standard library only."""

import dataclasses
import math
import os
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any

from training.contract.recipe import camel


class ResultError(ValueError):
    """A result file that is absent, damaged or of another version."""


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a file under a temporary name, fsync it and rename it, so that a reader sees either the old file or the
    whole new one.

    The file never has more rights than `mode` without the bits of the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)  # a killed process with this id may have left one, with other rights
    try:
        with open(temporary, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def encode(value: Any) -> Any:
    """Return a value as JSON data: dataclasses in it, at every depth, as dicts with camelCase keys."""
    if (keys := _keys_of(value.__class__)) is not None:
        return {key: encode(getattr(value, name)) for name, key in keys}
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


@cache
def _keys_of(kind: Any) -> tuple[tuple[str, str], ...] | None:
    """Return the names of a dataclass's fields, each with its key in JSON; None if the type is no dataclass."""
    is_record = dataclasses.is_dataclass(kind)
    return tuple((f.name, camel(f.name)) for f in dataclasses.fields(kind)) if is_record else None


@cache
def _parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(kind), typing.get_args(kind)


def decode(kind: Any, data: Any, where: str) -> Any:  # noqa: PLR0911 (one return a kind)
    """Return JSON data as a value of type `kind`: a dataclass, list, dict or optional value of these. Raises
    ResultError with `where`, which names the place, if the data do not fit."""
    origin, arguments = _parts_of(kind)
    if kind is Any:
        return data
    if origin in (types.UnionType, typing.Union):
        if data is None and type(None) in arguments:
            return None
        return decode(next(a for a in arguments if a is not type(None)), data, where)
    if origin is list:
        return [decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(typed(list, data, where))]
    if origin is dict:
        return {key: decode(arguments[1], item, f"{where}.{key}") for key, item in typed(dict, data, where).items()}
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, typed(dict, data, where), where)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind is float and isinstance(data, float) and not math.isfinite(data):
        raise ResultError(f"{where} is {data}, and should be a number")
    return typed(kind, data, where)


def _decode_record(kind: Any, data: dict[str, Any], where: str) -> Any:
    known, hints = _fields_of(kind)
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise ResultError(f"{where} has unknown keys {', '.join(unknown)}")
    missing = sorted(k for k, f in known.items() if k not in data and not _has_default(f))
    if missing:
        raise ResultError(f"{where} lacks {', '.join(missing)}")
    return kind(**{known[k].name: decode(hints[known[k].name], v, f"{where}.{k}") for k, v in data.items()})


@cache
def _fields_of(kind: Any) -> tuple[dict[str, dataclasses.Field[Any]], dict[str, Any]]:
    """Return a dataclass's fields by their camelCase names, and the types of the fields. Cached, because types take
    long to evaluate."""
    return {camel(f.name): f for f in dataclasses.fields(kind)}, typing.get_type_hints(kind)


def _has_default(entry: dataclasses.Field[Any]) -> bool:
    return entry.default is not dataclasses.MISSING or entry.default_factory is not dataclasses.MISSING


def typed(kind: Any, data: Any, where: str) -> Any:
    """Return `data`. Raises ResultError, with the place `where`, if it does not have the type `kind`."""
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise ResultError(f"{where} is {type(data).__name__}, and should be {kind.__name__}")
    return data
