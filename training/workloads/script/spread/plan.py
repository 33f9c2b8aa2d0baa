"""Which passes over which loaders feed backward passes, as the single process showed.

A pass that the single process did not come to is that of an earlier one by where its loader was made and where it
began; one of a place that nobody saw is not split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Plan:
    """The plan that a rank follows: which passes over which loaders are split among ranks."""

    def __init__(self, path: str) -> None:
        """Read the plan from a file."""
        facts = json.loads(Path(path).read_text(encoding="utf-8"))
        passes: list[dict[str, Any]] = facts["passes"]
        self._exact = {(each["loader"], each["number"]): (each["site"], each["feeds"]) for each in passes}
        self._of_loader = _alike(passes, "loader", "site")
        self._always = {
            each["loader"]: all(other["feeds"] for other in passes if other["loader"] == each["loader"])
            for each in passes
        }
        self._of_place = _alike(passes, "creation", "site")
        self.sparse: set[int] = set(facts["sparse"])
        """Positions of the parameters with sparse gradients, in the order in which optimizers got the parameters."""
        self.operations = {line: set(names) for line, names in facts.get("operations", {}).items()}
        """Names of operations of which losses are made, by the line of the backward pass."""
        self.inputs_as_single: bool = facts.get("inputsAsSingle", False)
        """Whether an input tensor's gradient is that of the single process, instead of that of a port's rank."""
        self.guessed = {(each["creation"], each["site"]) for each in passes if each["guessed"]}
        """Where passes begin of which only the order of events tells that they feed backward passes."""

    def knows(self, loader: int, creation: str, site: str) -> bool:
        """Return whether the single process had a pass over this loader that began at this place."""
        return (loader, site) in self._of_loader or (creation, site) in self._of_place

    def splits(self, loader: int, number: int, creation: str, site: str, *, learns: bool) -> bool:
        """Return whether the pass feeds backward passes, and so is split among ranks. `learns`: whether gradients are
        on where it begins; this decides at a new place over a loader whose passes all fed backward passes."""
        seen_at, feeds = self._exact.get((loader, number), ("", False))
        if seen_at == site:
            return bool(feeds)
        for known in (self._of_loader.get((loader, site)), self._of_place.get((creation, site))):
            if known is not None:
                return known
        return learns and self._always.get(loader, False)


def _alike(passes: Iterable[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], bool]:
    """Return whether passes with the same values of `keys` feed backward passes. If only some of them did, return true:
    the first pass may have been cut short."""
    feeding: dict[tuple[Any, ...], bool] = {}
    for each in passes:
        key = tuple(each[name] for name in keys)
        feeding[key] = feeding.get(key, False) or bool(each["feeds"])
    return feeding
