"""Turns the switch of a step's parts where PyTorch reads, computes, exchanges and saves.

The exchange that a step waits for is the time from the last gradient to the end of `torch.autograd.backward`, where
DistributedDataParallel synchronises: its all-reduces run beside the rest of the backward. So it is where ranks of a
plain script have its reducer without it (`see_exchange`).
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import guard, state
from .step_parts import COLLECTIVE, COMPUTE, SAVE, StepParts

MOST_UNSYNCHRONISED = 64
"""Number of backward passes without an exchange after which a model's hooks go: none is expected any more."""
SYNCHRONISED_BACKWARDS = 3
"""Backward passes after which only the last two parameters keep their hooks, each of which takes microseconds."""
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
    """Records by hooks on parameters when each parameter gets its gradient."""

    def __init__(self, parameters: Iterable[Any]) -> None:
        trained = [each for each in parameters if each.requires_grad]
        self.key = tuple(map(id, trained))
        self.handles = {
            id(parameter): parameter.register_post_accumulate_grad_hook(self._stamp)
            for parameter in trained
            if hasattr(parameter, "register_post_accumulate_grad_hook")
        }
        self._order: list[int] = []
        """Ids of the parameters that got a gradient in the present backward pass, in that order."""
        self._backwards = self._unsynchronised = 0

    @guard.guarded("the gradients could not be observed", guard.PARTS)
    def _stamp(self, parameter: Any) -> None:
        state.current().parts.gradient()
        if self._backwards < SYNCHRONISED_BACKWARDS:
            self._order.append(id(parameter))

    def end_backward(self, *, synchronised: bool) -> None:
        """Remove the hooks after a few backward passes, except those of the two parameters that get their gradients
        last: either of them may be the last. Remove all hooks of a model that never synchronises."""
        if self._order and self._backwards < SYNCHRONISED_BACKWARDS:
            self._backwards += synchronised
            self._unsynchronised += not synchronised
            if self._backwards == SYNCHRONISED_BACKWARDS:
                self.remove(but=self._order[-2:])
            elif self._unsynchronised == MOST_UNSYNCHRONISED:
                self.remove(but=())
        self._order.clear()

    @guard.guarded("the gradients could not be observed", guard.PARTS)
    def remove(self, but: Sequence[int] = ()) -> None:
        """Remove the hooks of all parameters, except of the parameters with the ids in `but`."""
        for key in [key for key in self.handles if key not in but]:
            self.handles.pop(key).remove()


_gradients: weakref.WeakKeyDictionary[Any, _Gradients] = weakref.WeakKeyDictionary()
"""The hooks of each DistributedDataParallel, or of the group of a rank of a script for one process."""


@guard.guarded("PyTorch's backward can't be observed", guard.PARTS)
def observe_backward(module: Any) -> None:
    """Measure the time of each backward pass. `module`: torch.autograd."""
    module.backward = _backward(module.backward, unless=functools.partial(compiles, sys.modules["torch"]))


@guard.around("a backward could not be observed", guard.PARTS)
def _backward(*_: Any, **__: Any) -> Iterator[None]:
    parts = _claimed()
    if parts is None:
        yield
        return
    parts.enter_backward()
    try:
        yield
    finally:
        synchronised = parts.synchronises
        if parts.leave_backward():
            for gradients in _gradients.values():
                gradients.end_backward(synchronised=synchronised)


@guard.guarded("DistributedDataParallel can't be observed", guard.PARTS)
def observe_parallel(module: Any) -> None:
    """Record at each forward whether its backward pass will exchange gradients. `module`:
    torch.nn.parallel.distributed."""
    parallel, torch = module.DistributedDataParallel, module.torch
    parallel.forward = _forward(parallel.forward, torch, unless=functools.partial(compiles, torch))


@guard.around("the model's gradients could not be observed", guard.PARTS)
def _forward(torch: Any, self: Any, *_: Any, **__: Any) -> Iterator[None]:
    learns = self.training or self.module.training  # Lightning leaves what wraps its module in evaluation
    parts = _claimed() if learns and torch.is_grad_enabled() else None
    if parts is not None:
        with state.current().hook():
            _see_forward(parts, self)
        parts.become(COMPUTE)
    yield


@guard.guarded("PyTorch's collectives can't be observed", guard.PARTS)
def observe_collectives(module: Any) -> None:
    """Measure the time of the collective operations that the script itself calls. `module`:
    torch.distributed.distributed_c10d."""
    unless = functools.partial(compiles, sys.modules["torch"])
    for name in COLLECTIVES:
        if hasattr(module, name):
            setattr(module, name, _time(getattr(module, name), COLLECTIVE, unless=unless))


@guard.guarded("torch.save can't be observed", guard.PARTS)
def observe_saving(module: Any) -> None:
    """Measure the time of `torch.save`. `module`: torch.serialization."""
    module.save = _time(module.save, SAVE, unless=functools.partial(compiles, sys.modules["torch"]))


def _see_forward(parts: StepParts, model: Any) -> None:
    parts.synchronises = bool(model.require_backward_grad_sync)
    if model not in _gradients:
        _stamp(model, model.parameters())


@guard.guarded("the exchange of ranks could not be observed", guard.PARTS)
def see_exchange(group: Any, parameters: Sequence[Any]) -> None:
    """Record that a backward pass begins that exchanges the gradients of `parameters`, in a rank of a script that was
    written for one process."""
    parts = _claimed()
    if parts is None:
        return
    parts.synchronises = True
    with state.current().hook():
        known = _gradients.get(group)
        if known is None:
            _stamp(group, parameters)
        elif known.key != tuple(map(id, parameters)):  # some are trained from now on, or no more
            known.remove()
            _stamp(group, parameters)


def _stamp(owner: Any, parameters: Iterable[Any]) -> None:
    """Add hooks that record when the parameters get gradients, until `owner`, which exchanges them, is freed."""
    _gradients[owner] = _Gradients(parameters)
    weakref.finalize(owner, _gradients[owner].remove)


def compiles(torch: Any) -> bool:
    """Return whether torch.compile is reading the calling code. The compiler takes the result as a constant, and so
    compiles nothing of the observer."""
    return bool(getattr(getattr(torch, "compiler", None), "is_compiling", bool)())


def _claimed() -> StepParts | None:
    """Return the record of the steps' parts if this thread makes the steps, or none has so far; else None."""
    parts = state.current().parts
    parts.claim()
    return parts if parts.here() else None


@guard.around("a call could not be timed", guard.PARTS)
def _time(part: str, *_: Any, **__: Any) -> Iterator[None]:
    """Count the time of a call as the time of `part`. Within a backward pass the call belongs to that pass, as the
    all-reduce in a gradient hook does."""
    now = state.current()
    with state.NO_PART if now.parts.backwards else now.part(part):
        yield
