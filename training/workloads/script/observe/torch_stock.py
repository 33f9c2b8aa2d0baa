"""The last batches of a DataLoader, to be given again, whatever they are made of and the script does to them.

All but tensors is pickled, as for a DataLoader's processes, so each batch that is given is an object of its own.
Tensors share the memory of those that were delivered, as long as the script changes none in place.
"""

from __future__ import annotations

import io
import pickle
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

KEPT_BATCHES = 4
"""Number of batches that are kept and delivered again in turn."""
KEPT_OF = 8
"""Once enough batches are kept, only one batch in this many is kept: while a batch is pickled, the loader's processes
go on, and no clock counts that time."""
MOST_STOCKS = 8
"""Most stocks of a process: a script may create a data set for each epoch."""
MOST_SECONDS = 0.2
"""Most CPU seconds to pickle a batch: one that holds its whole data set, say, is too large to be kept."""


class _Apart(pickle.Pickler):
    """Pickles everything of a batch except its tensors."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Any] = []
        self._type = sys.modules["torch"].Tensor

    def persistent_id(self, thing: Any) -> int | None:
        """Return the number of a tensor, which is not pickled; None for anything else."""
        if not isinstance(thing, self._type):
            return None
        self.tensors.append(thing)
        return len(self.tensors) - 1


class _Together(pickle.Unpickler):
    """Builds a batch from pickled data and its tensors."""

    def __init__(self, rest: bytes, tensor: Callable[[int], Any]) -> None:
        super().__init__(io.BytesIO(rest))
        self._tensor = tensor

    def persistent_load(self, pid: Any) -> Any:
        """Return the tensor with the number `pid`."""
        return self._tensor(pid)


class _Kept:
    """A batch that is kept: its tensors, and the pickled rest."""

    def __init__(self, batch: Any, *, copies: bool) -> None:
        """Take a batch apart, with copies of its tensors if `copies`. Raises the errors of pickling."""
        self._copies, out = copies, io.BytesIO()
        apart = _Apart(out)
        apart.dump(batch)
        self._rest = out.getvalue()
        self._tensors = [each.detach().clone() if copies else each.detach() for each in apart.tensors]
        self._learned = [bool(each.requires_grad) for each in apart.tensors]
        self._versions = self._present_versions()

    def is_changed(self) -> bool:
        """Return whether the script has changed a kept tensor in place."""
        return self._present_versions() != self._versions

    def batch(self) -> Any:
        """Return the batch, built again from its parts."""
        return _Together(self._rest, self._tensor).load()

    def _tensor(self, number: int) -> Any:
        kept = self._tensors[number]
        again = kept.clone() if self._copies else kept.detach()
        return again.requires_grad_() if self._learned[number] else again

    def _present_versions(self) -> list[int]:
        return [] if self._copies else [tensor._version for tensor in self._tensors]


class Stock:
    """The last batches of one loader, which can be delivered again."""

    def __init__(self) -> None:
        self._batches: deque[_Kept] = deque(maxlen=KEPT_BATCHES)
        self._delivered = 0
        self._copies = False
        """Whether the script changes batches in place; then copies of the tensors are kept and delivered."""

    def __len__(self) -> int:
        """Return the number of batches that can be delivered again."""
        return len(self._batches)

    def keep(self, batch: Any) -> str:
        """Keep a batch that was delivered; return the reason why no others should be kept, or ""."""
        self._delivered += 1
        if len(self) == KEPT_BATCHES and self._delivered % KEPT_OF:
            return ""
        self._look()
        began = time.thread_time()
        try:
            kept = _Kept(batch, copies=self._copies)
        except RuntimeError:  # tensors of inference have no versions
            self._copies, kept = True, _Kept(batch, copies=True)
        self._batches.append(kept)
        is_long = time.thread_time() - began > MOST_SECONDS
        return f"a batch takes more than {MOST_SECONDS} s to copy" if is_long else ""

    def give(self) -> Any:
        """Return the kept batch that was delivered longest ago; raise LookupError if no batch is kept."""
        self._look()
        if not self._batches:
            raise LookupError
        self._batches.rotate(-1)
        return self._batches[-1].batch()

    def _look(self) -> None:
        if any(kept.is_changed() for kept in self._batches):
            self._copies = True
            self._batches.clear()


class Stocks:
    """The stocks of all loaders. Loaders that make the same batches of the same data set share a stock, because some
    scripts create a loader for each epoch."""

    def __init__(self) -> None:
        self._stocks: deque[tuple[Callable[[], Any], Any, tuple[Any, ...], Stock]] = deque(maxlen=MOST_STOCKS)
        """Each stock with its collate function, so that no other function gets the id of that function."""

    def of(self, iterator: Any) -> Stock:
        """Return the stock of the iterator's loader; add a new stock if there is none yet."""
        data, collate = iterator._dataset, iterator._collate_fn
        size = getattr(iterator._index_sampler, "batch_size", None)
        code = getattr(collate, "__code__", collate)  # the same of a lambda that is made again
        makes = (id(code), id(getattr(collate, "__self__", None)), size)
        for known, _, of_known, stock in self._stocks:
            if known() is data and of_known == makes:
                return stock
        self._stocks.append((_reference(data), collate, makes, Stock()))
        return self._stocks[-1][3]


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list, say
        return lambda: thing
