"""The base of the dynamic providers, and how they compare properties.

Pulumi's state holds each provider pickled by reference, so a provider's module and class keep their names for ever.
"""

import sys
from collections.abc import Mapping
from typing import Any

from pulumi.dynamic import ConfigureRequest, ResourceProvider


class Provider(ResourceProvider):
    """A provider without values of its own, whose errors are shown as their messages."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Hide tracebacks; called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0


def changed(olds: Mapping[str, Any], news: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the properties that differ. An unknown value (`pulumi.output.Unknown`) differs from everything."""
    return [key for key in keys if news.get(key) != olds.get(key)]
