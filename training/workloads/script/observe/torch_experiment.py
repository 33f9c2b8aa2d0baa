"""The conditions that `make why` tries in a script of PyTorch: batches that are ready, no exchange, fewer threads.

A flag of DistributedDataParallel is set within its own forward and restored there: some scripts set it themselves
before each forward.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from . import experiment, state
from .torch_parts import compiles

KEPT_BATCHES = 4
"""Batches that are given again, in turn."""
AGAIN = "_observed_again"
"""Attribute of an iterator: how many batches it gave again in this pass."""


class Stock:
    """The last batches of a loader, to be given again."""

    def __init__(self) -> None:
        self._batches: deque[tuple[Any, list[int]]] = deque(maxlen=KEPT_BATCHES)
        """Each with the versions of its tensors when it was delivered."""
        self._rows = 0
        self._are_changed = False
        """Whether the script changes batches in place: then copies are kept, and given."""

    def keep(self, batch: Any) -> None:
        """Keep a batch that was delivered, unless it is smaller than others, as the last of a pass may be."""
        if not self._are_changed and any(_versions(kept) != versions for kept, versions in self._batches):
            self._are_changed = True
            self._batches.clear()
        rows = max((tensor.shape[0] for tensor in _tensors(batch) if tensor.ndim), default=0)
        if rows < self._rows:
            return
        if rows > self._rows:
            self._batches.clear()
        self._rows = rows
        self._batches.append((_copied(batch) if self._are_changed else batch, _versions(batch)))

    def give(self) -> Any:
        """Return the batch that was given longest ago; LookupError where none is kept."""
        if not self._batches:
            raise LookupError
        kept = self._batches.popleft()
        self._batches.append(kept)
        return _copied(kept[0]) if self._are_changed else kept[0]


_stocks: dict[int, Stock] = {}
"""By the id of a data set: a script may make a loader of it for each epoch."""


def change_input(module: Any) -> None:
    """Have a loader give batches again while input is to be ready. `module`: torch.utils.data.dataloader."""
    base = module._BaseDataLoaderIter
    deliver, reset, torch = base.__next__, base._reset, sys.modules["torch"]

    @functools.wraps(deliver)
    def deliver_ready(self: Any) -> Any:
        if not torch.is_grad_enabled():
            return deliver(self)
        now = experiment.current()
        with state.current().hook():
            _see_loader(now.facts, self)
            batch = _again(self) if now.is_input_ready and not now.facts.no_input else None
            if batch is None and self.__dict__.get(AGAIN) and _is_over(self):
                raise StopIteration
        if batch is not None:
            return batch[0]
        real = deliver(self)
        with state.current().hook():
            _stocks.setdefault(id(self._dataset), Stock()).keep(real)
        return real

    @functools.wraps(reset)
    def reset_counting(self: Any, *args: Any, **more: Any) -> Any:
        self.__dict__.pop(AGAIN, None)
        return reset(self, *args, **more)

    base.__next__, base._reset = deliver_ready, reset_counting


def _see_loader(facts: experiment.Facts, iterator: Any) -> None:
    if not state.current().is_in_step_thread():
        facts.no_input = "another thread than that of the steps reads the batches"
    elif iterator._dataset_kind != 0:  # _DatasetKind.Map
        facts.no_input = "the data set has no length: an epoch would not end where it should"
    else:
        facts.no_input = ""
    facts.loader_workers = int(iterator._num_workers)
    facts.ahead = facts.loader_workers * int(getattr(iterator, "_prefetch_factor", None) or 0)


def _again(iterator: Any) -> tuple[Any] | None:
    """Return a batch that was delivered before; None where none is kept. Raises StopIteration at the pass's end.

    Without processes of the loader the sampler is asked, as for any batch, and so ends the pass. With them nothing is
    asked of them, and batches are counted.
    """
    try:
        batch = _stocks[id(iterator._dataset)].give()
    except LookupError:
        return None
    if iterator._num_workers == 0:
        iterator._next_index()
        iterator._num_yielded += 1
        return (batch,)
    if _is_over(iterator):
        raise StopIteration
    iterator.__dict__[AGAIN] = iterator.__dict__.get(AGAIN, 0) + 1
    return (batch,)


def _is_over(iterator: Any) -> bool:
    """Return whether a pass had as many batches as it has without an experiment."""
    delivered: int = iterator._num_yielded + iterator.__dict__.get(AGAIN, 0)
    return delivered >= len(iterator._index_sampler)


def change_exchange(module: Any) -> None:
    """Count forwards that exchange gradients, and have them exchange none. `module`: torch.nn.parallel.distributed."""
    parallel, torch = module.DistributedDataParallel, module.torch
    forward, counted = parallel.forward, list[Callable[[], Any]]()

    @functools.wraps(forward)
    def forward_changed(self: Any, *args: Any, **more: Any) -> Any:
        if compiles(torch):
            return forward(self, *args, **more)
        now = state.current()
        exchanges = self.require_backward_grad_sync and self.training and torch.is_grad_enabled()
        if not exchanges or not now.is_in_step_thread():
            return forward(self, *args, **more)
        tried = experiment.current()
        if not counted and not now.step_ends:
            counted.append(weakref.ref(self))
            tried.counts_forwards, tried.facts.no_exchange = True, ""
        if counted and counted[0]() is self:
            tried.turn()
        if tried.exchanges:
            return forward(self, *args, **more)
        self.require_backward_grad_sync = False
        try:
            return forward(self, *args, **more)
        finally:
            self.require_backward_grad_sync = True

    parallel.forward = forward_changed


def count_steps(module: Any) -> None:
    """Count steps, where no forward exchanges gradients. `module`: torch.optim.optimizer."""
    after = getattr(module, "register_optimizer_step_post_hook", None)
    seen = [0]

    def count(*_: Any) -> None:
        now, torch = state.current(), sys.modules["torch"]
        steps = len(now.step_ends)
        if steps == seen[0] or not now.is_in_step_thread():
            return
        seen[0] = steps
        tried = experiment.current()
        if steps == 1:
            tried.facts.threads, tried.facts.set_threads = torch.get_num_threads(), torch.set_num_threads
        if not tried.counts_forwards:
            tried.turn()

    if after is not None:
        after(count)


def _tensors(batch: Any) -> Iterator[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for each in batch:
            yield from _tensors(each)
    elif hasattr(batch, "data_ptr") and hasattr(batch, "clone"):
        yield batch


def _versions(batch: Any) -> list[int]:
    return [tensor._version for tensor in _tensors(batch)]


def _copied(batch: Any) -> Any:
    """Return the batch with copies of its tensors; other leaves are shared."""
    if isinstance(batch, dict):
        return type(batch)({name: _copied(each) for name, each in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_copied(each) for each in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_copied(each) for each in batch)
    return batch.clone() if hasattr(batch, "data_ptr") and hasattr(batch, "clone") else batch
