"""Kueue's objects as tests make them: quota as a short text."""

from collections.abc import Mapping
from typing import Any

_LIMITS = {"lends": "lendingLimit", "borrows": "borrowingLimit"}


def resource(name: str, text: str) -> dict[str, str]:
    """A resource of a flavour, with a quota such as `4`, `4 lends 1` or `4 lends 1 borrows 2`."""
    nominal, *words = text.split()
    limits = {_LIMITS[word]: limit for word, limit in zip(words[::2], words[1::2], strict=True)}
    return {"name": name, "nominalQuota": nominal, **limits}


def group(flavors: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A group of resources: by flavour their quotas."""
    covered = list(dict.fromkeys(name for quotas in flavors.values() for name in quotas))
    of_all = [
        {"name": flavor, "resources": [resource(name, text) for name, text in quotas.items()]}
        for flavor, quotas in flavors.items()
    ]
    return {"coveredResources": covered, "flavors": of_all}
