"""Generators of random numbers: one seed in every process, and those of rank 0 on every rank."""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any

from .imports import when_imported


def seed(number: int) -> None:
    """Seed the generators from which a script draws without a seed of its own, also those that it creates so."""

    def seed_torch(torch: Any) -> None:
        torch.manual_seed(number)
        torch.seed = torch.random.seed = lambda: torch.manual_seed(number).initial_seed()

    def seed_numpy(numpy: Any) -> None:
        numpy.random.seed(number)
        make = numpy.random.default_rng
        numpy.random.default_rng = lambda seed=None: make(number if seed is None else seed)

    random.seed(number)
    when_imported("numpy", seed_numpy)
    when_imported("torch", seed_torch)


def states(torch: Any) -> tuple[Any, ...]:
    """Return the states of the global random generators of Python, NumPy and PyTorch."""
    numpy = sys.modules.get("numpy")
    on_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    return (
        torch.get_rng_state(),
        random.getstate(),
        None if numpy is None else numpy.random.get_state(),
        torch.cuda.get_rng_state() if on_cuda else None,
    )


def restore(torch: Any, generators: tuple[Any, ...]) -> None:
    """Set the states of the global random generators to those that `states` returned."""
    of_torch, of_python, of_numpy, of_cuda = generators
    torch.set_rng_state(of_torch)
    random.setstate(of_python)
    numpy = sys.modules.get("numpy")
    if of_numpy is not None and numpy is not None:
        numpy.random.set_state(of_numpy)
    if of_cuda is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(of_cuda)


def take_over(torch: Any) -> None:
    """Give every rank the states of rank 0's random generators."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch.no_grad():
        _take_over(torch)


def _take_over(torch: Any) -> None:
    distributed = torch.distributed
    content = pickle.dumps(states(torch))
    length = torch.tensor([len(content)], dtype=torch.int64)
    distributed.broadcast(length, 0)
    if distributed.get_rank() == 0:
        content_tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    else:
        content_tensor = torch.empty(int(length), dtype=torch.uint8)
    distributed.broadcast(content_tensor, 0)
    if distributed.get_rank() != 0:
        restore(torch, pickle.loads(content_tensor.numpy().tobytes()))  # noqa: S301 (rank 0's own)
