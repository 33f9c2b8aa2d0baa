"""Steps of PyTorch's optimizers, rows that its DataLoaders deliver, and a digest of the weights.

The clock is the first optimizer that steps: `register_optimizer_step_post_hook` (torch 2.1 and newer). Rows are counted
when they are delivered, not when they are drawn: DataLoader workers draw ahead, and an epoch may end before them.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import time
from collections import deque
from typing import Any

from . import state, torch_probe

_optimizers: list[Any] = []


def observe_optimizers(module: Any) -> None:
    """Have every step of every optimizer end here. `module`: torch.optim.optimizer."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        state.note("steps are seen with PyTorch 2.1 and newer")
        return
    register(_after_step)


def _after_step(optimizer: Any, *_: Any) -> None:
    began = time.perf_counter()
    now = state.current()
    try:
        if not now.step_ends:
            _begin(now, optimizer)
        if not any(optimizer is known for known in _optimizers):
            _optimizers.append(optimizer)
        counted = now.step(id(optimizer))
    except Exception as error:  # noqa: BLE001 (the script's step is done, and goes on)
        state.note(f"a step could not be observed: {error!r}")
        return
    finally:
        now.hook_seconds += time.perf_counter() - began
    if counted and now.is_enough():
        raise state.Enough(0)


def _begin(now: state.State, optimizer: Any) -> None:
    """What is known with the first step: by then a rank has joined the others."""
    torch = sys.modules["torch"]
    now.framework = "torch"
    now.threads = torch.get_num_threads()
    now.weights = digest
    now.learning_rate = lambda: optimizer.param_groups[0]["lr"]
    now.gradient_bytes, now.probe = gradient_bytes, functools.partial(torch_probe.probe, gradient_bytes)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        now.rank, now.world = distributed.get_rank(), distributed.get_world_size()
    else:
        now.world = 1  # whatever the variables say: nobody joined


def digest() -> str | None:
    """SHA-256 of all parameters of all optimizers that stepped; None where a rank holds a part of them alone."""
    torch = sys.modules["torch"]
    total = hashlib.sha256()
    for parameter in _parameters():
        if _is_sharded(parameter):
            state.note("weights are sharded over the ranks: no digest says whether they are equal")
            return None
        plain = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(bytes(plain.numpy()) if _has_numpy() else bytes(plain.tolist()))
    return total.hexdigest()


def gradient_bytes() -> int | None:
    """What the gradients of these parameters take, each once; None where a rank holds a part of them alone."""
    trained = {id(parameter): parameter for parameter in _parameters() if parameter.requires_grad}
    if any(_is_sharded(parameter) for parameter in trained.values()):
        return None
    return sum(int(parameter.numel() * parameter.element_size()) for parameter in trained.values())


def _parameters() -> list[Any]:
    return [each for optimizer in _optimizers for group in optimizer.param_groups for each in group["params"]]


def _is_sharded(parameter: Any) -> bool:
    return type(getattr(parameter, "data", None)).__name__ == "DTensor"


@functools.lru_cache(maxsize=1)
def _has_numpy() -> bool:
    return "numpy" in sys.modules


def observe_loaders(module: Any) -> None:
    """Count what DataLoaders deliver. `module`: torch.utils.data.dataloader."""
    base, loader_class = module._BaseDataLoaderIter, module.DataLoader
    draw, deliver, reset, begin = base._next_index, base.__next__, base._reset, loader_class.__iter__

    @functools.wraps(begin)
    def begin_observed(self: Any) -> Any:
        iterator = begin(self)
        _loader_of(iterator).passes += 1
        return iterator

    @functools.wraps(draw)
    def draw_observed(self: Any) -> Any:
        index = draw(self)
        self.__dict__.setdefault("_observed_drawn", deque()).append(index)
        return index

    @functools.wraps(reset)
    def reset_observed(self: Any, *args: Any, **more: Any) -> Any:
        self.__dict__["_observed_drawn"] = deque()  # what was drawn ahead in an epoch that ended early
        return reset(self, *args, **more)

    @functools.wraps(deliver)
    def deliver_observed(self: Any) -> Any:
        batch = deliver(self)
        began = time.perf_counter()
        try:
            _count(self, batch)
        except Exception as error:  # noqa: BLE001 (the script has its batch)
            state.note(f"rows could not be counted: {error!r}")
        state.current().hook_seconds += time.perf_counter() - began
        return batch

    base._next_index, base.__next__, base._reset = draw_observed, deliver_observed, reset_observed
    loader_class.__iter__ = begin_observed


def _loader_of(iterator: Any) -> state.Loader:
    """Rows are counted by data set: a script may make a loader of it for each epoch."""
    loaders = state.current().loaders
    key = id(iterator._dataset)
    if key not in loaders:
        indices = iterator._index_sampler
        loaders[key] = state.Loader(
            _length(iterator._dataset), _length(getattr(indices, "sampler", indices)), _length(indices)
        )
    return loaders[key]


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except (TypeError, NotImplementedError, AttributeError):
        return None  # what is only iterated over has none


def _count(iterator: Any, batch: Any) -> None:
    loader = _loader_of(iterator)
    if sys.modules["torch"].is_grad_enabled():  # else nothing can be learned from the batch: it is for a validation
        state.current().deliver(loader)
    drawn = iterator.__dict__.get("_observed_drawn")
    index = drawn.popleft() if drawn else None
    numbers = list(index) if isinstance(index, (list, tuple)) else [index]
    if all(hasattr(number, "__index__") for number in numbers):
        loader.deliver(len(numbers), [int(number) for number in numbers if number is not None])
    else:
        loader.deliver(_leading_size(batch), None)


def _leading_size(batch: Any) -> int:
    """Rows of a batch that has no row numbers: the first tensor's first dimension."""
    if isinstance(batch, dict):
        return _leading_size(next(iter(batch.values()))) if batch else 0
    if isinstance(batch, (list, tuple)):
        return _leading_size(batch[0]) if batch else 0
    shape: Any = getattr(batch, "shape", None)
    return int(shape[0]) if shape else 1
