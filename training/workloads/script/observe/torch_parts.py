"""Turns the switch of a step's parts where PyTorch reads, computes, exchanges and saves.

The exchange that a step waits for is the time from the last gradient to the end of `torch.autograd.backward`, where
DistributedDataParallel synchronises: its all-reduces run beside the rest of the backward.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from . import state
from .step_parts import COLLECTIVE, COMPUTE, SAVE

SYNCHRONISED_BACKWARDS = 3
"""Backwards after which the hooks of all parameters but the last two go: each takes some microseconds."""
COLLECTIVES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
)


class _Gradients:
    """Stamps when a model's parameters have their gradients, by hooks on them."""

    def __init__(self, model: Any) -> None:
        self._handles = {
            id(parameter): parameter.register_post_accumulate_grad_hook(self._stamp)
            for parameter in model.parameters()
            if parameter.requires_grad and hasattr(parameter, "register_post_accumulate_grad_hook")
        }
        self._order: list[int] = []
        """Ids of the parameters that had a gradient in the present backward, one after another."""
        self._backwards = 0

    def _stamp(self, parameter: Any) -> None:
        state.current().parts.gradient()
        if self._backwards < SYNCHRONISED_BACKWARDS:
            self._order.append(id(parameter))

    def end_backward(self) -> None:
        """Keep the hooks of the two parameters that have their gradients last: either may be the last, by a little."""
        if not self._order:
            return
        self._backwards += 1
        if self._backwards == SYNCHRONISED_BACKWARDS:
            for key in [key for key in self._handles if key not in self._order[-2:]]:
                self._handles.pop(key).remove()
        self._order.clear()


_gradients: weakref.WeakKeyDictionary[Any, _Gradients] = weakref.WeakKeyDictionary()
"""By the model that is wrapped in DistributedDataParallel."""


def observe_backward(module: Any) -> None:
    """Time each backward. `module`: torch.autograd."""
    backward = module.backward

    @functools.wraps(backward)
    def backward_observed(*args: Any, **more: Any) -> Any:
        parts = state.current().parts_here()
        if parts is None:
            return backward(*args, **more)
        parts.enter(COMPUTE)
        try:
            return backward(*args, **more)
        finally:
            parts.leave_backward()
            if parts.synchronises:
                for gradients in _gradients.values():
                    gradients.end_backward()

    module.backward = backward_observed


def observe_parallel(module: Any) -> None:
    """See whether a forward's backward exchanges gradients. `module`: torch.nn.parallel.distributed."""
    parallel, torch = module.DistributedDataParallel, module.torch
    forward = parallel.forward

    @functools.wraps(forward)
    def forward_observed(self: Any, *args: Any, **more: Any) -> Any:
        if torch.compiler.is_compiling():  # a constant to the compiler, which then sees the forward alone
            return forward(self, *args, **more)
        parts = state.current().parts_here()
        if parts is not None and torch.is_grad_enabled() and self.training:
            with state.current().hook():
                parts.synchronises = bool(self.require_backward_grad_sync)
                if self not in _gradients:
                    _gradients[self] = _Gradients(self)
            parts.become(COMPUTE)
        return forward(self, *args, **more)

    parallel.forward = forward_observed


def observe_collectives(module: Any) -> None:
    """Time the script's own collectives. `module`: torch.distributed.distributed_c10d."""
    for name in COLLECTIVES:
        if hasattr(module, name):
            setattr(module, name, _timed(getattr(module, name), COLLECTIVE))


def observe_saving(module: Any) -> None:
    """Time `torch.save`. `module`: torch.serialization."""
    module.save = _timed(module.save, SAVE)


def _timed(call: Callable[..., Any], part: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed(*args: Any, **more: Any) -> Any:
        parts = state.current().parts_here()
        if parts is None:
            return call(*args, **more)
        parts.enter(part)
        try:
            return call(*args, **more)
        finally:
            parts.leave()

    return timed
