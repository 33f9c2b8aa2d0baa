"""Reads what the backend has of this stack, as its last update left it: by functions of the engine."""

from collections.abc import Mapping
from typing import Any

import pulumi

from training.machine.retries import retry

_ATTEMPTS = 6


def name() -> str:
    """Return the stack's full name, with its organization and its project."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"


def outputs() -> Mapping[str, Any]:
    """Return the stack's outputs. Errors of the engine, which may be of any kind, are raised as they are."""
    return _read("readStackOutputs", {"name": name()})


def resources() -> Mapping[str, Any]:
    """Return the `type` and the `outputs` of each resource, by the resource's URN. Raises as `outputs` does."""
    return _read("readStackResourceOutputs", {"stackName": name()})


def _read(function: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
    def read() -> Mapping[str, Any]:
        of_all: Mapping[str, Any] = pulumi.runtime.invoke(f"pulumi:pulumi:{function}", arguments).value["outputs"]
        return of_all

    return retry(read, (Exception,), _pause)


def _pause(attempt: int, _: Exception) -> float | None:
    """Return the seconds until the next attempt to read; None for no further attempt. A file backend cannot be read
    while it is written, as the engine does at the beginning of this update, and another program may do."""
    return 0.2 * attempt if attempt < _ATTEMPTS else None
