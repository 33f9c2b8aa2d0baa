"""The weights that PyTorch's optimizers train: how many, of which type, which of them got a gradient, and digests."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections import Counter
from typing import Any

from . import state

INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""Integer types as which numbers are read, by their size in bytes."""
PARTS_OF_RANKS = ("DTensor", "FlatParameter")
"""Types of weights of which each rank holds a part."""
optimizers: list[Any] = []
"""Optimizers that stepped, in this order, without those inside others."""


def digest() -> str | None:
    """SHA-256 of all parameters of all optimizers that stepped; None where a rank holds a part of them alone."""
    torch = sys.modules["torch"]
    total = hashlib.sha256()
    if _are_sharded():
        state.note("weights are sharded over the ranks: no digest says whether they are equal")
        return None
    for parameter in parameters():
        plain = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(bytes(plain.numpy()) if _has_numpy() else bytes(plain.tolist()))
    return total.hexdigest()


def quick_digest() -> str | None:
    """Return a hash of the sums of each parameter's numbers, read as integers; None as for `digest`."""
    torch = sys.modules["torch"]
    if _are_sharded():
        return None
    sums = []
    for parameter in parameters():
        plain = parameter.detach().contiguous().reshape(-1)
        whole = torch.view_as_real(plain).reshape(-1) if plain.is_complex() else plain
        numbers = whole.view(getattr(torch, INTEGERS[whole.element_size()]))
        sums.append(numbers.sum(dtype=torch.int64).cpu())
    return hashlib.sha256(repr(torch.stack(sums).tolist()).encode()).hexdigest()[:16]


def note_trained() -> None:
    """Note the number of parameters by type, and how many of them have a gradient now."""
    work = state.current().work
    if _are_sharded():
        return
    counts = Counter[str]()
    for parameter in parameters():
        counts[str(parameter.dtype).rpartition(".")[2]] += parameter.numel()
    work.parameters = " + ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    work.trained.note(sum(each.numel() for each in parameters() if each.grad is not None))


def gradient_bytes() -> int | None:
    """Return the bytes of these parameters' gradients, each once; None if a rank holds only a part of them."""
    if _are_sharded():
        return None
    return sum(int(each.numel() * each.element_size()) for each in parameters() if each.requires_grad)


def parameters() -> list[Any]:
    """Return the parameters of all optimizers, each once."""
    every = [each for optimizer in optimizers for group in optimizer.param_groups for each in group["params"]]
    return list({id(each): each for each in every}.values())


def _are_sharded() -> bool:
    return any(
        type(each).__name__ in PARTS_OF_RANKS or type(getattr(each, "data", None)).__name__ in PARTS_OF_RANKS
        for each in parameters()
    )


@functools.lru_cache(maxsize=1)
def _has_numpy() -> bool:
    return "numpy" in sys.modules
