"""Settings of a run as a map of texts, in which Pulumi keeps them. Standard library only."""

import json
from collections.abc import Mapping
from typing import Any

from training.contract.recipe import canonical


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as Pulumi keeps them, a text for each: it would make floats of numbers, and of a map a preview
    shows what changes. A text that reads as JSON is JSON itself."""
    return {key: value if _is_plain(value) else canonical(value) for key, value in values.items()}


def from_texts(recipe: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that `texts` made an input of."""
    return {key: text if _is_plain(text) else json.loads(text) for key, text in recipe.items()}


def _is_plain(value: Any) -> bool:
    """Return whether it is a text that is not JSON."""
    try:
        json.loads(value)
    except ValueError:
        return True
    except TypeError:
        return False
    return False
