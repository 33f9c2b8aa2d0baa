"""The weights that PyTorch's optimizers train: how many, of which type, which have a gradient, and digests."""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from collections import Counter
from typing import Any

from . import guard, state
from .work import Optimizer

INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""Integer types, by their size in bytes, as which the numbers of weights are read to sum them exactly."""
PARTS_OF_RANKS = ("DTensor", "FlatParameter")
"""Types of weights of which each rank holds a part."""
_looked_at: list[Any] = [[], False]
"""Ids of the parameters at the previous step, and whether each rank holds only a part of them."""


def see(seen: Optimizer, optimizer: Any) -> None:
    """Record which parameters an optimizer trains, before its step is counted, and do not keep them alive."""
    state.current().work.last = None
    if not _is_same(seen.weights, trained := _trained(optimizer)):
        seen.weights = [weakref.ref(each) for each in trained]
    if not seen.steps:
        seen.sizes = _sizes(optimizer.param_groups) or ""
        weakref.finalize(optimizer, _keep, seen).atexit = False


def trains_others(seen: Optimizer, optimizer: Any) -> bool:
    """Return whether the script has filled the optimizer's groups with other parameters."""
    if _is_same(seen.weights[:1], (trained := _trained(optimizer))[:1]):
        return False
    known = {id(each) for each in (reference() for reference in seen.weights) if each is not None}
    return bool(seen.weights and trained) and not any(id(each) in known for each in trained)


def _trained(optimizer: Any) -> list[Any]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _is_same(references: list[Any], trained: list[Any]) -> bool:
    return [id(reference()) for reference in references] == list(map(id, trained))


@guard.guarded("the sizes of its groups could not be observed", "hyperparameters")
def _sizes(groups: list[Any]) -> str:
    """Return each group's number of tensors and numbers as text, without names, which a wrapped model may change."""
    return " ".join(
        f"{number}:tensors={len(group['params'])} {number}:numbers={sum(each.numel() for each in group['params'])}"
        for number, group in enumerate(groups, 1)
    )


@guard.guarded("the weights could not be observed", "weights")
def _keep(seen: Optimizer) -> None:
    """Record a digest of the present weights when an optimizer of theirs is freed: they may be next."""
    now = state.current()
    if now.written or now.work.last or seen not in now.work.present or not now.is_in_step_thread():
        return
    if is_complete() and not _is_captured():
        now.keep_weights()


def _is_captured() -> bool:
    """Return whether a CUDA graph is being recorded: what the observer computed then would become part of the graph."""
    on_cuda = any(each.device.type == "cuda" for each in parameters())
    return on_cuda and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def digest() -> str | None:
    """Return the SHA-256 of all parameters of the present optimizers; None if each rank holds only a part of them, or
    if they were freed without a digest."""
    torch = sys.modules["torch"]
    total = hashlib.sha256()
    if not is_complete():
        last: str | None = (state.current().work.last or (None,))[0]
        if last is None:
            state.note("the weights were freed before the end: no digest says whether they are equal")
        return last
    if _are_sharded():
        state.note("weights are sharded over the ranks: no digest says whether they are equal")
        return None
    for parameter in parameters():
        plain = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(bytes(plain.numpy()) if _has_numpy() else bytes(plain.tolist()))
    return total.hexdigest()


def quick_digest() -> str | None:
    """Return a quick hash of the parameters; None if some were freed, or each rank holds only a part of them."""
    return _hash_of_sums(parameters()) if is_complete() and not _are_sharded() else None


def gradient_digest() -> str | None:
    """Return a hash of the gradients that takes little time, or of the parameters if no gradients are kept after a
    step; None as for `quick_digest`."""
    if not is_complete() or _are_sharded():
        return None
    gradients = [each.grad for each in parameters() if each.grad is not None and not each.grad.is_sparse]
    return _hash_of_sums(gradients) if gradients else quick_digest()


def _hash_of_sums(tensors: list[Any]) -> str:
    """Return a hash of the sum of each tensor's numbers, where the numbers are read as integers."""
    torch, sums = sys.modules["torch"], []
    for parameter in tensors:
        plain = parameter.detach().contiguous().reshape(-1)
        whole = torch.view_as_real(plain).reshape(-1) if plain.is_complex() else plain
        numbers = whole.view(getattr(torch, INTEGERS[whole.element_size()]))
        sums.append(numbers.sum(dtype=torch.int64).cpu())
    return hashlib.sha256(repr(torch.stack(sums).tolist()).encode()).hexdigest()[:16]


def note_parameters() -> None:
    """Record the number of parameters of each type, unless each rank holds only a part of them."""
    work = state.current().work
    if not is_complete() or _are_sharded():
        return
    counts = Counter[str]()
    for parameter in parameters():
        counts[str(parameter.dtype).rpartition(".")[2]] += parameter.numel()
    work.note_parameters(" + ".join(f"{number} {kind}" for kind, number in sorted(counts.items())))


@guard.guarded("the gradients could not be observed", "trained")
def note_gradients() -> None:
    """Record which parameters have a gradient in this step."""
    every = _weights()
    if any(each is None for each in every):
        return
    ids = list(map(id, every))
    if ids != _looked_at[0]:  # what takes long, as each parameter is asked for its data
        _looked_at[:] = ids, _are_sharded()
    if not _looked_at[1]:
        state.current().work.gradients.step(list({id(each): each for each in every}.values()))


def gradient_bytes() -> int | None:
    """Return the bytes of the gradients of the present optimizers' parameters, each parameter counted once; None if
    each rank holds only a part of them."""
    if not is_complete():
        return (state.current().work.last or (None, None))[1]
    if _are_sharded():
        return None
    return sum(int(each.numel() * each.element_size()) for each in parameters() if each.requires_grad)


def parameters() -> list[Any]:
    """Return the parameters of the present optimizers, each once."""
    return list({id(each): each for each in _weights() if each is not None}.values())


def is_complete() -> bool:
    """Return whether all parameters of the present optimizers still exist, which ranks free when they like."""
    return all(each is not None for each in _weights())


def _weights() -> list[Any]:
    return [reference() for optimizer in state.current().work.present for reference in optimizer.weights]


def _are_sharded() -> bool:
    return any(
        type(each).__name__ in PARTS_OF_RANKS or type(getattr(each, "data", None)).__name__ in PARTS_OF_RANKS
        for each in parameters()
    )


@functools.lru_cache(maxsize=1)
def _has_numpy() -> bool:
    return "numpy" in sys.modules
