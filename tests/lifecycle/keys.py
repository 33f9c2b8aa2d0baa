"""What a lifecycle sets: right and wrong values, and what has to come of them by the documentation."""

from collections.abc import Mapping
from typing import Any

FIRST = {"repeats": "1", "wideArm": "false"}
"""Of each lifecycle, so that an update makes few runs; they are not unset."""
RIGHT = (
    ("epochs", "1"), ("epochs", "2"), ("epochs", "3"), ("globalBatchSize", "32"), ("learningRate", "0.01"),
    ("seed", "7"), ("warmupSteps", "1"), ("workers", "1"), ("workers", "2"), ("repeats", "1"), ("repeats", "2"),
    ("nativeArm", "false"), ("nativeArm", "true"), ("wideArm", "true"), ("wideArm", "false"),
    ("runTimeoutMinutes", "5"), ("priceCpuHour", "0.05"), ("keepBaseline", "true"), ("trainImages", "256"),
)  # fmt: skip
WRONG = (
    ("epochs", "0"), ("epochs", "many"), ("workers", "two"), ("workers", "4096"), ("learningRate", "nan"),
    ("nativeArm", "maybe"), ("repeats", "0"), ("epoch", "3"), ("target", "mars"), ("dataset", "mnist2"),
    ("runTimeoutMinutes", "0"), ("rayDashboard", "1.5"), ("globalBatchSize", "1e9"),
)  # fmt: skip
_OF_RECIPE = {
    "epochs": "4", "globalBatchSize": "64", "learningRate": "0.001", "seed": "1", "warmupSteps": "3", "workers": "2",
    "trainImages": "0",
}  # fmt: skip
"""Keys of the recipe and their defaults."""
_DEFAULTS = _OF_RECIPE | {"nativeArm": "true", "repeats": "4", "runTimeoutMinutes": "60"}


def wrong(settings: Mapping[str, str]) -> set[str]:
    """The keys with a value that is refused."""
    return {key for key, value in settings.items() if (key, value) in WRONG}


def recipe(settings: Mapping[str, str]) -> dict[str, float]:
    """What has to stand in the recipe."""
    return {key: float(settings.get(key, default)) for key, default in _OF_RECIPE.items()}


def explicit(settings: Mapping[str, str]) -> dict[str, str]:
    """What has to stand among the settings that are not their defaults."""
    return {key: value for key, value in settings.items() if value != _DEFAULTS.get(key)}


def arms(settings: Mapping[str, str]) -> set[str]:
    """The arms that have to be measured."""
    optional = {"native": settings.get("nativeArm") != "false", "wide": settings["wideArm"] == "true"}
    return {"baseline", "ray", *(name for name, is_wanted in optional.items() if is_wanted)}


def differences(expected: Mapping[str, float], recipe: Mapping[str, Any], *but: str) -> dict[str, tuple[Any, float]]:
    """What of a recipe is not as expected: what it is, and what it should be."""
    return {
        key: (recipe.get(key), value) for key, value in expected.items() if key not in but and recipe.get(key) != value
    }
