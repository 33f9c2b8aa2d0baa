"""The base of the dynamic providers, and how they compare properties.

Pulumi's state holds each provider pickled by reference, so a provider's module and class keep their names for ever.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.dynamic import ConfigureRequest, DiffResult, ResourceProvider


class Provider(ResourceProvider):
    """A dynamic provider without values of its own. Its errors are shown as their message alone."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Hide tracebacks. Pulumi calls this before anything else, and only in the provider's own process."""
        sys.tracebacklimit = 0


def replaced_by(replaces: Sequence[str], *, deleted_first: bool | None = None) -> DiffResult:
    """Return that a change of these properties replaces the resource; without properties, that nothing has changed.

    If properties changed, the engine itself compares the resource's inputs (`changes` is None), and a preview shows
    those that differ; with True it would show all inputs, and every line of the old outputs. Use this only for a
    provider whose outputs as of creation are its inputs: if the inputs do not differ, the engine sees no change.
    """
    return DiffResult(changes=None if replaces else False, replaces=list(replaces), delete_before_replace=deleted_first)


def changed(olds: Mapping[str, Any], news: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the properties that differ. An unknown value (`pulumi.output.Unknown`) differs from every other value."""
    return [key for key in keys if news.get(key) != olds.get(key)]
