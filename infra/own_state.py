"""Reads what the backend has of this stack, as its last update left it: by functions of the engine."""

from collections.abc import Mapping
from typing import Any

import pulumi

from training.machine.retries import retry

_ATTEMPTS = 6


def name() -> str:
    """Return the stack's whole name."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"


def outputs() -> Mapping[str, Any]:
    """Return the stack's outputs. Raises what the engine raises, which is of any kind."""
    return _read("readStackOutputs", {"name": name()})


def resources() -> Mapping[str, Any]:
    """Return `type` and `outputs` of each resource by its URN. Raises as `outputs` does."""
    return _read("readStackResourceOutputs", {"stackName": name()})


def _read(function: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
    def read() -> Mapping[str, Any]:
        of_all: Mapping[str, Any] = pulumi.runtime.invoke(f"pulumi:pulumi:{function}", arguments).value["outputs"]
        return of_all

    return retry(read, (Exception,), _pause)


def _pause(attempt: int, _: Exception) -> float | None:
    """Return the seconds until it is read again: a file backend cannot be read while it is written, which the engine
    does at the beginning of this update, and another program may do."""
    return 0.2 * attempt if attempt < _ATTEMPTS else None
