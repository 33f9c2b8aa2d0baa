"""The gradient of a whole batch as a sum of those of the ranks, each times a number: which numbers, and what is left.

The single process' gradients are given: each rank computes its own without exchange, all are fitted, and training goes
on with the given ones. So every fit is at the weights of the single process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .exchange import Optimizers
from .originals import OPEN
from .record import Record, save
from .weights import Weights

FITTED = 3
"""Number of backward passes whose gradients are fitted."""
MOST_NUMBERS = 2**20
"""Most numbers of a gradient that a fit uses."""


class Kept:
    """Keeps the gradients that each of the first backward passes adds, in a single process."""

    def __init__(self, torch: Any, optimizers: Optimizers, record: Record, out: str) -> None:
        """Replace `torch.autograd.backward` by a function that also keeps gradients."""
        call = torch.autograd.backward
        self._count = 0

        def backward(*args: Any, **more: Any) -> None:
            if self._count >= FITTED:
                call(*args, **more)
                return
            self._count += 1
            number = self._count
            before = gradients(optimizers)
            call(*args, **more)
            with record.quiet(), torch.no_grad():
                save(torch, added(optimizers, before), Path(out, f"backward-{number}.pt"))

        torch.autograd.backward = backward


class Fits:
    """The backward pass of a rank that fits the gradients of all ranks to those of the single process."""

    def __init__(
        self, torch: Any, optimizers: Optimizers, record: Record, weights: Weights, record_folder: str
    ) -> None:
        """Replace `torch.autograd.backward` by `backward`."""
        self._torch, self._optimizers, self._record = torch, optimizers, record
        self._weights, self._record_folder = weights, Path(record_folder)
        self.fits: list[dict[str, Any]] = []
        self._call = torch.autograd.backward
        torch.autograd.backward = self.backward

    def backward(self, *args: Any, **more: Any) -> None:
        """Compute this rank's gradients, fit all ranks' to those of the single process, and set the latter."""
        torch = self._torch
        path = self._record_folder / f"backward-{len(self.fits) + 1}.pt"
        before = gradients(self._optimizers)
        roots = args[0] if args else more["tensors"]
        weight = self._weights.of([roots] if isinstance(roots, torch.Tensor) else roots)
        self._call(*args, **more)
        with self._record.quiet(), torch.no_grad():
            if not path.exists() or len(self.fits) >= FITTED:
                self._record.end()
                return
            with OPEN(path, "rb") as file:
                whole = torch.load(file)
            own = added(self._optimizers, before)
            share = weight / self._weights.loaders.world
            self.fits.append({**self._fit(own, whole, counts=weight > 0), "share": share})
            for each, start, delta in zip(self._optimizers.parameters(), before, whole):
                each.grad = delta if start is None else start if delta is None else start + delta.to(start)
        if len(self.fits) == FITTED:
            self._record.end()

    def _fit(self, own: list[Any], whole: list[Any], *, counts: bool) -> dict[str, Any]:
        torch, world = self._torch, self._weights.loaders.world
        mine, goal = _flat(torch, own, whole), _flat(torch, whole, own)
        parts = [torch.empty_like(mine) for _ in range(world)]
        torch.distributed.all_gather(parts, mine if counts else torch.zeros_like(mine))
        matrix = torch.stack(parts, 1)
        numbers = torch.linalg.lstsq(matrix, goal.unsqueeze(1), driver="gelsd").solution.flatten()
        size = float(goal.norm())
        left = float((matrix @ numbers - goal).norm())
        return {
            "numbers": [round(float(each), 12) for each in numbers],
            "residual": left / size if size else left,
            "empty": [not bool(each.any()) for each in parts],
        }

    def facts(self) -> dict[str, Any]:
        """Return all fits."""
        return {"fits": self.fits}


def gradients(optimizers: Optimizers) -> list[Any]:
    """Return copies of the gradients of all parameters that optimizers have; None where there is no gradient."""
    return [None if each.grad is None else each.grad.detach().clone() for each in optimizers.parameters()]


def added(optimizers: Optimizers, before: list[Any]) -> list[Any]:
    """Return what a backward pass has added to each gradient; None for a parameter without a gradient."""
    additions = []
    for place, each in enumerate(optimizers.parameters()):
        start = before[place] if place < len(before) else None
        now = None if each.grad is None else each.grad.detach()
        additions.append(now if now is None or start is None else now - start)
    return [None if each is None else (each.to_dense() if each.is_sparse else each).clone() for each in additions]


def _flat(torch: Any, tensors: list[Any], others: list[Any]) -> Any:
    """Return the numbers of all tensors in one tensor, with zeros where only `others` has a tensor."""
    parts = []
    for first, other in zip(tensors, others):
        if first is not None or other is not None:
            each = torch.zeros_like(other) if first is None else first
            each = torch.view_as_real(each.resolve_conj()) if each.is_complex() else each
            parts.append(each.to("cpu", torch.float64).flatten())
    numbers = torch.cat(parts) if parts else torch.zeros(1, dtype=torch.float64)
    return numbers[:: 1 + len(numbers) // MOST_NUMBERS].contiguous()
