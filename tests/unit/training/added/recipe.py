"""Its settings and its detail."""

from dataclasses import dataclass

from training.contract.recipe import Recipe, setting
from training.contract.rules import choice, whole


@dataclass(frozen=True, kw_only=True)
class SumsRecipe(Recipe):
    """How many numbers there are."""

    workload: str = setting("sums", choice(["cnn", "sums"]), "what is trained")
    numbers: int = setting(100, whole(1, 1000), "numbers to add")


@dataclass(frozen=True, kw_only=True)
class SumsDetail:
    """What only this workload has."""

    told: str
    """By the rendezvous."""
