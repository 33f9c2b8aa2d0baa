"""The conditions that `rwi why` tries in a script of PyTorch: batches that are ready, no exchange, fewer threads.

A flag of DistributedDataParallel is set within its own forward and restored there: some scripts set it themselves
before each forward.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import experiment, guard, state
from .torch_loaders import length_of
from .torch_parts import compiles
from .torch_stock import Stocks

AGAIN = "_observed_again"
"""Attribute of an iterator with the number of batches that it has delivered again in this pass."""
ABANDONED = 16
"""Forwards of other models, or steps of other optimizers, after which the script is taken to have stopped using the
counted model or optimizer."""
_stocks = Stocks()


@guard.guarded("a condition can't be changed")
def change_input(module: Any) -> None:
    """Have loaders deliver earlier batches again while the condition `input ready` is on. `module`:
    torch.utils.data.dataloader."""
    base = module._BaseDataLoaderIter
    base.__next__ = _ready_or(base.__next__)
    base._reset = _forget_again(base._reset)


def _ready_or(deliver: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(deliver)
    def deliver_ready(self: Any) -> Any:
        ready = _ready(self)
        if ready is None:
            real = deliver(self)
            _keep(self, real)
            return real
        if not ready:
            raise StopIteration
        return ready[0]

    return deliver_ready


@guard.guarded("batches could not be given again")
def _ready(iterator: Any) -> tuple[Any, ...] | None:
    """Return a tuple with a batch that was delivered before; an empty tuple at the end of the pass; None if the loader
    is to deliver the batch itself."""
    if not sys.modules["torch"].is_grad_enabled():
        return None
    tried, now, batch = experiment.current(), state.current(), None
    with now.hook():
        _see_loader(tried.facts, iterator)
        try:
            batch = _again(iterator) if tried.is_input_ready and not tried.facts.no_input else None
            is_over = batch is None and bool(iterator.__dict__.get(AGAIN)) and _is_over(iterator)
        except StopIteration:
            is_over = True
    if is_over:
        if now.parts_here() is not None:
            now.parts.end_pass()
        return ()
    if batch is not None:
        tried.again += 1
        now.parts.deliver()
    return batch


@guard.around("batches could not be given again")
def _forget_again(self: Any, *_: Any, **__: Any) -> Iterator[None]:
    self.__dict__.pop(AGAIN, None)
    yield


def _see_loader(facts: experiment.Facts, iterator: Any) -> None:
    """Record the properties of a loader of training data. Each of several must be able to deliver batches again."""
    facts.loader_workers = max(facts.loader_workers or 0, int(iterator._num_workers))
    prefetched = iterator._num_workers * int(getattr(iterator, "_prefetch_factor", None) or 0)
    facts.ahead = max(facts.ahead, prefetched)
    if facts.no_input not in ("", experiment.NO_LOADER):
        return
    if not state.current().is_in_step_thread():
        facts.no_input = "another thread than that of the steps reads the batches"
    elif iterator._dataset_kind != 0:  # _DatasetKind.Map
        facts.no_input = "the data set has no length: an epoch would not end where it should"
    elif iterator._num_workers and length_of(iterator._index_sampler) is None:
        facts.no_input = "its sampler has no length: an epoch would not end where it should"
    else:
        facts.no_input = ""


@guard.guarded("batches could not be kept")
def _keep(iterator: Any, batch: Any) -> None:
    """Keep a batch to deliver it again, except the last of a pass, which may be smaller."""
    facts = experiment.current().facts
    if facts.no_input or not sys.modules["torch"].is_grad_enabled():
        return
    with state.current().hook():
        try:
            stock = _stocks.of(iterator)
            if not stock or not _is_over(iterator):
                facts.no_input = stock.keep(batch)
        except Exception as error:  # noqa: BLE001 (a condition that can't be tried has its own reason)
            facts.no_input = f"its batches can't be kept: {error!r}"


def _again(iterator: Any) -> tuple[Any] | None:
    """Return a tuple with a batch that was delivered before; None if no batch is kept. Raises StopIteration at the end
    of the pass: without worker processes the sampler is asked, and ends the pass; with worker processes the batches are
    counted."""
    try:
        batch = _stocks.of(iterator).give()
    except LookupError:
        return None
    except Exception as error:  # noqa: BLE001 (the script gets another batch)
        experiment.current().facts.no_input = f"its batches can't be given again: {error!r}"
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
    """Return whether the pass has had as many batches as without an experiment; False if that is not known."""
    length = length_of(iterator._index_sampler)
    delivered: int = iterator._num_yielded + iterator.__dict__.get(AGAIN, 0)
    return length is not None and delivered >= length


@guard.guarded("a condition can't be changed")
def change_exchange(module: Any) -> None:
    """Count forwards that exchange gradients, and switch the exchange off under the condition `no exchange`. `module`:
    torch.nn.parallel.distributed."""
    parallel, torch = module.DistributedDataParallel, module.torch
    parallel.forward = _change(parallel.forward, torch, _Counted(), unless=functools.partial(compiles, torch))


@guard.around("the exchange could not be changed")
def _change(torch: Any, counted: _Counted, self: Any, *_: Any, **__: Any) -> Iterator[None]:
    now = state.current()
    if not (self.require_backward_grad_sync and torch.is_grad_enabled()) or not now.is_in_step_thread():
        yield
        return
    tried = experiment.current()
    if self._join_config.enable:
        tried.facts.uneven = "ranks may make different numbers of steps, as join() allows"
    if counted.is_turn(self, now, tried):
        tried.turn()
    if tried.exchanges:
        yield
        return
    self.require_backward_grad_sync = False
    try:
        yield
    finally:
        self.require_backward_grad_sync = True


def exchanges(group: Any) -> bool:
    """Return whether the backward pass that begins is to exchange the gradients of the group `group`, for a rank of a
    script that was written for one process. Such a backward pass begins a turn, the unit in which the experiment's
    blocks are counted."""
    return not experiment.is_wanted() or _exchanges(group) is not False


@guard.guarded("the exchange could not be changed")
def _exchanges(group: Any) -> bool:
    now, tried = state.current(), experiment.current()
    if not now.is_in_step_thread():
        return True
    if _of_ranks.is_turn(group, now, tried):
        tried.turn()
    return tried.exchanges


def _begin(now: state.State, facts: experiment.Facts) -> None:
    """Record rank, world size and threads at the first forward: the first step may come late, for example with an
    optimizer that needs many forwards for each step."""
    torch = sys.modules["torch"]
    facts.threads, facts.set_threads = torch.get_num_threads(), torch.set_num_threads
    now.rank, now.world = torch.distributed.get_rank(), torch.distributed.get_world_size()


class _Counted:
    """Decides which forwards are turns: those of the first model, or of a later one when the first is used no more; in
    a rank of a script written for one process, backward passes of its group. Of forwards without a backward pass
    between them only the first is a turn, so that a rank that validates keeps in step with the others."""

    def __init__(self) -> None:
        self._model: Callable[[], Any] | None = None
        self._others = 0
        """Number of forwards of other models since the last forward of the counted model."""
        self._backwards = -1

    def is_turn(self, model: Any, now: state.State, tried: experiment.Experiment) -> bool:
        """Return whether this forward begins a turn, the unit in which the experiment's blocks are counted."""
        if self._model is None:
            if now.step_ends:  # another model was trained before: steps are counted
                return False
            tried.counts_forwards, tried.facts.no_exchange = True, ""
            self._model = weakref.ref(model)
            _begin(now, tried.facts)
        backwards = now.parts.backwards_made
        if backwards == self._backwards and (backwards or not now.step_ends):
            return False
        if self._model() is not model:
            self._others += 1
            if self._others < ABANDONED:
                return False
            self._model = weakref.ref(model)
        self._others, self._backwards = 0, backwards
        return True


_of_ranks = _Counted()
"""Decides the turns of a rank of a script that was written for one process."""


@guard.guarded("a condition can't be changed")
def count_steps(module: Any) -> None:
    """Count steps as turns in scripts where no forward exchanges gradients. `module`: torch.optim.optimizer."""
    after = getattr(module, "register_optimizer_step_post_hook", None)
    if after is not None:
        after(_Steps().count)


class _Steps:
    """Decides which optimizer steps are turns."""

    def __init__(self) -> None:
        self._seen = self._others = 0

    @guard.guarded("a turn could not be started")
    def count(self, *_: Any) -> None:
        """Begin a turn after a step, unless the step was made by an optimizer that is not counted."""
        now, torch = state.current(), sys.modules["torch"]
        steps = len(now.step_ends)
        self._others = self._others + 1 if steps == self._seen else 0
        if 0 < self._others < ABANDONED or not now.is_in_step_thread():
            return
        self._seen = steps
        tried = experiment.current()
        if steps == 1 and not tried.counts_forwards:
            tried.facts.threads, tried.facts.set_threads = torch.get_num_threads(), torch.set_num_threads
        if not tried.counts_forwards:
            tried.turn()
