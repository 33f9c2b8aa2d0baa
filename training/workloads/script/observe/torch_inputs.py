"""Records the input of the first PyTorch module with parameters: how many numbers a step, their type, and autocast.

By hooks on modules alone, which are found after the first step: one for all modules would have PyTorch compile twice.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from . import guard, state, torch_weights
from .step_parts import COMPUTE

COMPILED = "OptimizedModule"
"""Type of what torch.compile makes of a module: it is called, and the modules inside it are not."""
MOST_TRIES = 8
"""Number of first steps in which the observer looks for a module that is called."""
MOST_MODELS = 64
"""Most successive models whose modules the observer looks for, because the search takes time."""
_handles: dict[int, Any] = {}
_first: list[int] = []
"""Id of the module that a step called first in training; empty until one was seen."""
_called = [False]
"""Whether the module in `_first` was called since the last step."""
_tries = [0]
_models = [1]


def begin_again() -> None:
    """Look for the first module again, because another model is trained from now on."""
    _models[0] += 1
    if _models[0] <= MOST_MODELS:
        _unhook_all()
        _first.clear()
        _tries[0] = 0
    else:
        guard.lose("not every model's input was looked at", *guard.INPUT, why=f"there are more than {MOST_MODELS}")


@guard.guarded("the input of the modules could not be observed", *guard.INPUT)
def look() -> None:
    """Look at the model's input after a step: at first find the modules, then keep only the hook of the module that is
    called first, and count the steps in which that module is not called."""
    if _tries[0] > MOST_TRIES:
        state.current().work.steps_without_input += bool(_first) and not _called[0]
        _called[0] = False
        return
    _tries[0] += 1
    if _tries[0] == 1:
        _hook_all()
    elif _first:
        _unhook_all(but=_first[0])
        _tries[0] = MOST_TRIES + 1
    elif _tries[0] > MOST_TRIES:
        _unhook_all()


def _hook_all() -> None:
    every = [each for each in gc.get_objects() if issubclass(type(each), sys.modules["torch"].nn.Module)]
    compiled = [each for each in every if type(each).__name__ == COMPILED]
    if not compiled and _has_compiled():
        state.current().work.no_input = "modules of compiled functions are not looked at: that would compile them twice"
        return
    wanted = {id(parameter) for parameter in torch_weights.parameters()}
    for module in compiled or every:
        own = module.__dict__.get("_parameters", {}).values()
        if compiled or any(id(parameter) in wanted for parameter in own):
            with suppress(RuntimeError, AttributeError):  # modules of TorchScript take none
                _handles[id(module)] = module.register_forward_pre_hook(_enters, with_kwargs=True)


def _has_compiled() -> bool:
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))


def _unhook_all(but: int | None = None) -> None:
    for key in [key for key in _handles if key != but]:
        _handles.pop(key).remove()


@guard.guarded("the input of a module could not be observed", *guard.INPUT)
def _enters(module: Any, args: Any, more: Any) -> None:
    now = state.current()
    parts = now.parts_here()
    if parts is not None and module.training and sys.modules["torch"].is_grad_enabled():
        parts.become(COMPUTE)  # where no loader delivers the batch
    with now.hook():
        _look_at(now, module, [*args, *more.values()])


def _look_at(now: state.State, module: Any, inputs_given: list[Any]) -> None:
    torch = sys.modules["torch"]
    if not torch.is_grad_enabled():
        return
    tensor = next(_tensors(inputs_given), None)
    if tensor is None:
        return
    now.enters(tensor.data_ptr(), training=module.training)
    if module.training and not _first:
        _first.append(id(module))
    if id(module) == (_first[0] if _first else id(module)):
        _called[0] = True
        inputs = now.work.training if module.training else now.work.evaluation
        kind = str(tensor.dtype).rpartition(".")[2]
        inputs.enter(tensor.numel(), kind, _autocast(torch, tensor.device.type))


def _autocast(torch: Any, device: str) -> str:
    try:
        return str(torch.get_autocast_dtype(device)).rpartition(".")[2] if torch.is_autocast_enabled(device) else "off"
    except (TypeError, AttributeError):  # before PyTorch 2.4
        return "bfloat16" if torch.is_autocast_cpu_enabled() else "off"


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "data_ptr"):
        yield value
