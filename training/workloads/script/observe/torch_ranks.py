"""What the mechanism that makes ranks of a plain script tells of its exchange: no DistributedDataParallel is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import torch_experiment, torch_parts


def exchange(group: Any, parameters: Sequence[Any]) -> bool:
    """Record that a backward pass begins that exchanges the gradients of `parameters`; return whether they are to be
    exchanged, because `rwi why` may switch the exchange off."""
    exchanges = torch_experiment.exchanges(group)
    if exchanges:
        torch_parts.see_exchange(group, parameters)
    return exchanges
