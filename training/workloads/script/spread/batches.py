"""PyTorch's DataLoaders: which batches they deliver, and the rows of each that this rank computes.

The script's own sampler draws each batch, on every rank alike; a rank takes every N-th row of it. Only iterations that
feed backward passes are split, as the plan of the single process says.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import places
from .plan import Plan

LOADER, ITERATION = "_spread_loader", "_spread_iteration"


@dataclass(frozen=True)
class Batch:
    """A delivered batch with the numbers of its rows; `own` are the rows of this process."""

    iteration: Iteration
    number: int
    own: tuple[int, ...]
    """Positions of this process's rows in the whole batch."""
    whole: int
    weight: float
    """Weight of the mean over this rank's rows in the mean over the whole batch, times the number of ranks."""


@dataclass
class Iteration:
    """One pass over a loader."""

    loader: int
    number: int
    creation: str
    """The line of the script in which the loader was created."""
    site: str
    """The lines of the script at which the pass begins."""
    kind: str
    """`rows`, or the reason why the pass cannot be split among ranks: `iterable` or `unbatched`."""
    splits: bool = False
    feeds: bool = False
    unknown: bool = False
    """Whether the plan has no pass that begins at this place, so that this pass is not split."""
    guessed: bool = False
    """Whether only the order of events tells that the pass feeds backward passes."""
    drawn: deque[tuple[tuple[int, ...], int]] = field(default_factory=deque)
    delivered: int = 0


class Loaders:
    """The loaders of this process."""

    def __init__(self, torch: Any, rank: int, world: int, plan: Plan | None, *, reverse: bool = False) -> None:
        """Replace the functions by which DataLoaders begin a pass, draw rows and deliver batches."""
        self.rank, self.world, self.plan, self.reverse = rank, world, plan, reverse
        self.even, self.uneven = 1, 0
        """Of which number the rows of a split batch must be a multiple, and how many batches lost rows by that."""
        self.iterations: list[Iteration] = []
        self.latest: Batch | None = None
        """The split batch that was delivered last; in a single process the last batch of any kind."""
        self.latest_of_all: Iteration | None = None
        """The pass that delivered the last batch."""
        self.last_drawn: tuple[tuple[int, ...], int] = ((), 0)
        """Positions of this process's rows in the batch that is being read, and the number of rows of that batch."""
        self.since_backward: list[Batch] = []
        self.at_start: list[Callable[[str], None]] = []
        self.at_delivery: list[Callable[[Batch, Any], Any]] = []
        self.part_of = ""
        """Name of the library's method (such as Keras' `evaluate`) whose passes begin now and do not train; it becomes
        a part of their place. "" for all other passes."""
        self._torch, self._counter = torch, itertools.count()
        self._starting: Iteration | None = None
        self._replace(torch.utils.data.dataloader)

    def _replace(self, module: Any) -> None:
        loaders, loader = self, module.DataLoader
        make, begin, sampler = loader.__init__, loader.__iter__, loader._index_sampler.fget
        deliver = module._BaseDataLoaderIter.__next__

        def __init__(self: Any, *args: Any, **more: Any) -> None:
            make(self, *args, **more)
            self.__dict__[LOADER] = (next(loaders._counter), places.stack())

        def __iter__(self: Any) -> Any:
            iteration = loaders._begin(self, module)
            loaders._starting = iteration
            try:
                iterator = begin(self)
            finally:
                loaders._starting = None
            iterator.__dict__[ITERATION] = iteration
            return iterator

        def __next__(self: Any) -> Any:
            batch = deliver(self)
            return loaders._deliver(self.__dict__.get(ITERATION), batch)

        loader.__init__, loader.__iter__ = __init__, __iter__
        loader._index_sampler = property(lambda self: _Drawn(loaders, sampler(self)))
        module._BaseDataLoaderIter.__next__ = __next__

    def _begin(self, loader: Any, module: Any) -> Iteration:
        number, creation = loader.__dict__.get(LOADER, (-1, ""))
        site = places.stack() + self.part_of
        for start in self.at_start:
            start(site)
        earlier = sum(1 for each in self.iterations if each.loader == number)
        rows = loader._dataset_kind == module._DatasetKind.Map
        kind = "iterable" if not rows else "rows" if loader._auto_collation else "unbatched"
        iteration = Iteration(number, earlier, creation, site, kind)
        if self.plan is not None and kind == "rows":
            iteration.splits = self.plan.splits(number, earlier, creation, site, learns=self._torch.is_grad_enabled())
            iteration.guessed = (creation, site) in self.plan.guessed
            iteration.unknown = not iteration.splits and not self.plan.knows(number, creation, site)
        self.iterations.append(iteration)
        if getattr(loader, "in_order", True) is False:
            loader.in_order = True  # ranks need one order
        return iteration

    def part(self, iteration: Iteration, index: Any) -> Any:
        """Return the rows of a drawn batch that this process computes."""
        if iteration.kind != "rows":
            return index
        if not hasattr(index, "__getitem__"):
            index = list(index)
        places_ = list(range(len(index)))
        if iteration.splits and len(index) % self.even:
            self.uneven += 1
            places_ = places_[: len(index) // self.even * self.even]
        if self.reverse:
            places_.reverse()
        if iteration.splits:
            places_ = places_[self.rank :: self.world]
        self.last_drawn = (tuple(places_), len(index))
        iteration.drawn.append(self.last_drawn)
        return taken(index, places_ or [0])

    def _deliver(self, iteration: Iteration | None, content: Any) -> Any:
        if iteration is None:
            return content
        own, whole = iteration.drawn.popleft() if iteration.drawn else ((), 0)
        weight = self.world * len(own) / whole if iteration.splits and whole else 1.0
        batch = Batch(iteration, iteration.delivered, own or (0,), whole, weight)
        iteration.delivered += 1
        self.latest_of_all = iteration
        if not self.part_of and (iteration.splits or self.plan is None):
            self.latest = batch
            if self._torch.is_grad_enabled():
                self.since_backward.append(batch)
        for look in self.at_delivery:
            content = look(batch, content)
        return content


def taken(index: Any, numbers: list[int]) -> Any:
    """Return the rows with these numbers from a drawn batch, in a container of the same kind."""
    if hasattr(index, "shape"):
        return index[numbers]
    rows = [index[number] for number in numbers]
    return tuple(rows) if isinstance(index, tuple) else rows


class _Drawn:
    """The sampler of a loader; of each batch that it draws this process takes its part."""

    def __init__(self, loaders: Loaders, sampler: Any) -> None:
        self._loaders, self._sampler = loaders, sampler
        self._iteration: Iteration | None = None

    def __iter__(self) -> Iterator[Any]:
        iteration = self._iteration = self._loaders._starting
        drawn: Iterator[Any] = iter(self._sampler)
        if iteration is None:
            return drawn
        return (self._loaders.part(iteration, index) for index in drawn)

    def __len__(self) -> int:
        return len(self._sampler)

    def rows_of_rank(self) -> int | None:
        """Return how many rows of a pass belong to this process, from the number that the script's sampler announces;
        None if the sampler announces no number."""
        try:
            rows, size = len(self._sampler.sampler), int(self._sampler.batch_size)
        except (AttributeError, NotImplementedError, TypeError):
            return None
        last = 0 if self._sampler.drop_last else rows % size
        return rows // size * self._own(size) + self._own(last)

    def _own(self, rows: int) -> int:
        """Return how many rows of a batch this process gets: at least one, which has no weight if none is its own."""
        splits = self._iteration is not None and self._iteration.splits
        return max(1, len(range(self._loaders.rank, rows, self._loaders.world))) if splits and rows else rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)
