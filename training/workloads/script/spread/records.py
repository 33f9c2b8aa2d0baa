"""Reads what the processes of a run left, and compares two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import watch
from .forks import Fork
from .settings import LOOKED_AT

INFINITE = float("inf")


@dataclass
class Run:
    """A run of one process, or of ranks."""

    name: str
    folder: Path
    forks: list[Fork]
    ended: bool = True

    @cached_property
    def facts(self) -> list[dict[str, Any]]:
        """Return the facts that each rank has written; an empty dict for a rank that wrote none."""
        return [self._json(f"facts-rank{rank}.json") for rank in range(len(self.forks))]

    @cached_property
    def apart(self) -> str:
        """Return in words where ranks took different ways through the script; "" if they did not."""
        reports = [self._json(f"apart-rank{rank}.json").get("apart", "") for rank in range(len(self.forks))]
        return next(filter(None, reports), "") or watch.apart(str(self.folder), len(self.forks))

    @property
    def error(self) -> str:
        """Return why the first process that failed ended: its traceback, or its last lines; "" if none failed."""
        if not self.ended:
            return "it did not end in time"
        for fork, facts in zip(self.forks, self.facts):
            if fork.code:
                return facts.get("error") or "\n".join(
                    fork.printed.read_text(errors="replace").strip().splitlines()[-12:]
                )
        return ""

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return content

    def tensors(self, torch: Any, name: str, rank: int = 0) -> list[Any] | None:
        """Return the tensors that a rank has kept under a name; None if it kept none."""
        path = self.folder / f"{name}-rank{rank}.pt"
        kept: list[Any] | None = torch.load(path) if path.exists() else None
        return kept

    @property
    def steps(self) -> int:
        """Return the optimizer steps of rank 0."""
        return int(self.facts[0].get("steps", 0))


def flat(torch: Any, tensors: Sequence[Any], like: Sequence[Any] | None = None) -> Any:
    """Return all numbers of the tensors in one tensor, with zeros for a gradient that is missing."""
    parts = []
    for place, each in enumerate(tensors):
        if each is None and like is not None:
            parts.append(torch.zeros_like(flat(torch, [like[place]])))
        elif each is not None:
            parts.append((torch.view_as_real(each) if each.is_complex() else each).to(torch.float64).flatten())
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def weights(torch: Any, reference: Run, other: Run, rank: int = 0) -> dict[str, float]:
    """Return how far the weights of two runs are apart, by step: the largest difference divided by the largest change
    of a weight since the start of the first run. Return an empty dict if no weight changed."""
    start = reference.tensors(torch, "weights-0")
    distances: dict[str, float] = {}
    if start is None:
        return distances
    first, changed = flat(torch, start), False
    for step in (*map(str, LOOKED_AT), "last"):
        of_one, of_other = reference.tensors(torch, f"weights-{step}"), other.tensors(torch, f"weights-{step}", rank)
        if of_one is None and of_other is None:
            continue
        distances[step] = INFINITE
        if of_one is not None and of_other is not None:
            distances[step] = _apart(flat(torch, of_one), flat(torch, of_other), first)
            changed |= bool((flat(torch, of_one)[: first.numel()] != first).any())
    return distances if changed else {}


def _apart(reference: Any, other: Any, start: Any) -> float:
    if reference.shape != other.shape:
        return INFINITE
    if not reference.numel():
        return 0.0
    change = float((reference[: start.numel()] - start).abs().max()) if start.numel() else 0.0
    distance = float((reference - other).abs().max())
    if math.isnan(distance):
        return (
            0.0
            if bool((reference.isnan() == other.isnan()).all()) and not bool(reference.isfinite().any())
            else INFINITE
        )
    return distance / change if change else (0.0 if distance == 0.0 else INFINITE)


def gradients(torch: Any, reference: Run, other: Run, rank: int = 0) -> dict[str, float]:
    """Return how far the gradients before the optimizer's steps are apart in two runs, by step: the largest difference
    divided by the largest gradient."""
    distances: dict[str, float] = {}
    for step in map(str, LOOKED_AT):
        of_one, of_other = (
            reference.tensors(torch, f"gradients-{step}"),
            other.tensors(torch, f"gradients-{step}", rank),
        )
        if of_one is None or of_other is None:
            continue
        if [each is None for each in of_one] != [each is None for each in of_other]:
            distances[step] = INFINITE
            continue
        a, b = flat(torch, of_one), flat(torch, of_other)
        largest = float(a.abs().max()) if a.numel() else 0.0
        distance = float((a - b).abs().max()) if a.numel() else 0.0
        distances[step] = distance / largest if largest else (0.0 if distance == 0.0 else INFINITE)
    return distances


def buffers(torch: Any, reference: Run, other: Run) -> float:
    """Return how far the buffers of two runs are apart at the end: the largest difference divided by the largest
    number; 0 if there are no buffers."""
    of_one, of_other = reference.tensors(torch, "buffers") or [], other.tensors(torch, "buffers") or []
    a, b = flat(torch, of_one), flat(torch, of_other)
    if a.shape != b.shape:
        return INFINITE
    finite = a.isfinite() & b.isfinite()
    a, b = a[finite], b[finite]
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-300)) if a.numel() else 0.0


def largest(distances: dict[str, float]) -> float:
    """Return the largest distance; infinity if there is no distance, or a distance is not a number."""
    numbers = [INFINITE if math.isnan(each) else each for each in distances.values()]
    return max(numbers, default=INFINITE)
