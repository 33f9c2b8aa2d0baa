"""Rows that PyTorch's DataLoaders deliver.

They are counted when they are delivered, not when they are drawn: DataLoader workers draw ahead, and an epoch may end
before them.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from . import guard, state
from .loaders import Below, Loader, Pass
from .state import NO_PART
from .step_parts import BETWEEN, INPUT
from .work import is_looked_at

MOST_WAITING = 2**18
"""Most rows that may wait to be marked within a pass."""
SAMPLED_ROWS, SAMPLED_NUMBERS = 64, 256
"""How many rows, and how many numbers of each row, are sampled to tell the content of a data set from another's."""
FRACTION = re.compile(r"-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)")
"""Matches a number with a fraction or an exponent, as Python prints it."""
DEPTH = 3
"""Depth to which data sets within data sets are searched."""
MOST_PARTS = 4
"""Most parts of a batch that are looked at."""
ARRAYS = "keras.src.trainers.data_adapters"
"""The package in which Keras makes data sets of arrays."""
DRAWN, PASS = "_observed_drawn", "_observed_pass"
_sets: dict[int, tuple[Any, int]] = {}
"""A weak reference to a data set (None if its type allows none) and the data set's number, by the id of the data set.
An id is reused when a data set is gone, a number never."""
_counter = itertools.count()


@guard.guarded("PyTorch's data loaders can't be observed")
def observe_loaders(module: Any) -> None:
    """Count the rows that DataLoaders deliver. `module`: torch.utils.data.dataloader."""
    base = module._BaseDataLoaderIter
    base._next_index = _draw(base._next_index)
    base._reset = _reset(base._reset)
    base.__next__ = _deliver(base.__next__)
    module.DataLoader.__iter__ = _begin(module.DataLoader.__iter__)


@guard.around("the numbers of rows could not be observed", *guard.ROWS)
def _draw(self: Any) -> Iterator[None]:
    index: Any = yield
    self.__dict__.setdefault(DRAWN, deque()).append(index)


@guard.around("the numbers of rows could not be observed", *guard.ROWS)
def _reset(self: Any, *_: Any, **__: Any) -> Iterator[None]:
    self.__dict__[DRAWN] = deque()  # what was drawn ahead in an epoch that ended early
    yield


@guard.around("the start of a pass could not be observed", *guard.ROWS, guard.PARTS, guard.WAITS)
def _begin(_: Any) -> Iterator[None]:
    learns = _learns()
    with state.current().input_wait if learns else NO_PART:
        iterator: Any = yield
    iterator.__dict__.pop(PASS, None)  # persistent workers have one iterator for all passes
    if learns:
        state.current().parts.begin_pass()


@guard.around("rows could not be counted", *guard.ROWS, guard.PARTS, guard.WAITS)
def _deliver(self: Any) -> Iterator[None]:
    now, learns = state.current(), _learns()
    parts = now.parts_here()
    with now.part(INPUT if learns else BETWEEN), now.input_wait if learns else NO_PART:
        try:
            batch: Any = yield
        except StopIteration:
            if parts is not None:
                parts.end_pass()
            if now.is_in_step_thread():
                now.device.end_pass(len(now.step_ends))
            with now.hook():
                _end(self)
            return
    if _learns():
        now.parts.deliver()
        now.input_wait.deliver()
    with now.hook():
        _count(self, batch)


def _learns() -> bool:
    """Return whether the model can learn from a batch that is read now."""
    return bool(sys.modules["torch"].is_grad_enabled()) and not state.current().only_looks


def _count(iterator: Any, batch: Any) -> None:
    now, loader = state.current(), _loader_of(iterator)
    learning = _learns()
    steps, entered = len(now.step_ends), now.work.training.numbers
    if PASS not in iterator.__dict__:
        iterator.__dict__[PASS] = loader.begin(steps, learning, entered)
    elif learning:
        loader.go_on(iterator.__dict__[PASS], steps, entered)
    drawn = iterator.__dict__.get(DRAWN)
    index = drawn.popleft() if drawn else None
    if not learning:
        return
    now.deliver(loader, places(batch))
    rows = len(index) if isinstance(index, (list, tuple)) else 1 if hasattr(index, "__index__") else None
    numbers = None if rows is None else index
    waiting = loader.deliver(leading_size(batch) if rows is None else rows, numbers, iterator.__dict__[PASS])
    if waiting > MOST_WAITING:
        now.take_time(loader.mark)


def _end(iterator: Any) -> None:
    ended: Pass | None = iterator.__dict__.pop(PASS, None)
    if ended is None:
        return
    now, loader = state.current(), _loader_of(iterator)
    loader.end(ended, len(now.step_ends))
    if is_looked_at(ended.number):  # another one is told if it is the last, and marked then
        now.take_time(loader.mark)
    if loader is now.training() and now.is_in_step_thread():
        now.look_at_weights()


def _loader_of(iterator: Any) -> Loader:
    """Return the record of the iterator's data set; add a record for a new data set. Rows are counted by data set,
    because a script may create a loader of the same data set for each epoch."""
    loaders, dataset = state.current().loaders, iterator._dataset
    known, number = _sets.get(id(dataset), (None, -1))
    if number not in loaders or (known is not None and known() is not dataset):
        loader = _new_loader(iterator)
        number = _number_of_arrays(dataset, loader)
        if number not in loaders:
            state.current().add(number, loader)
        try:
            _sets[id(dataset)] = weakref.ref(dataset), number
        except TypeError:
            _sets[id(dataset)] = None, number
    return loaders[number]


def _number_of_arrays(dataset: Any, loader: Loader) -> int:
    """Return the number of a data set. Keras makes a new data set of the same arrays for each pass: it gets the number
    of the earlier data set."""
    loaders = state.current().loaders
    if loader.identity is not None and _is_of_arrays(dataset):
        for number, each in loaders.items():
            if (each.identity, each.dataset_rows) == (loader.identity, loader.dataset_rows):
                if _learns():
                    each.epoch_rows, each.epoch_batches = loader.epoch_rows, loader.epoch_batches
                return number
    return next(_counter)


class Arrays:
    """The arrays of a data set that Keras made; the length is the number of rows, unlike the length of the data set."""

    def __init__(self, dataset: Any) -> None:
        self.parts = tuple(_leaves(dataset.array))

    def __len__(self) -> int:
        return len(self.parts[0])


def _leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, (dict, list, tuple)):
        for each in structure.values() if isinstance(structure, dict) else structure:
            yield from _leaves(each)
    elif structure is not None:
        yield structure.array


def _is_of_arrays(dataset: Any) -> bool:
    return type(dataset).__module__.startswith(ARRAYS) and hasattr(dataset, "array")


def _new_loader(iterator: Any) -> Loader:
    dataset = Arrays(iterator._dataset) if _is_of_arrays(iterator._dataset) else iterator._dataset
    base, levels = _base(dataset)
    sampler = iterator._index_sampler
    loader = Loader(length_of(base), _rows_of_pass(iterator, sampler), length_of(sampler))
    loader.own_rows = length_of(dataset)
    if levels:
        loader.is_part = True
        loader.below = functools.partial(_below, weakref.ref(iterator._dataset))
    if (text := _identity(base)) is not None:
        loader.identity, loader.content = _digest(text), _content(text)
    return loader


def _base(dataset: Any) -> tuple[Any, list[Any]]:
    """Return the base data set below every Subset, and the row numbers by which each refers to the one below it."""
    levels = []
    while type(dataset).__name__ == "Subset" and hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        levels.append(dataset.indices)
        dataset = dataset.dataset
    return dataset, levels


def _below(reference: Callable[[], Any]) -> Below:
    """Return a function that turns row numbers of the data set into row numbers of the base data set. Raises
    LookupError if the data set is gone."""
    if (dataset := reference()) is None:
        raise LookupError("the data set is gone")
    levels = _base(dataset)[1]

    def below(numbers: Any) -> Any:
        for indices in levels:
            numbers = [int(indices[number]) for number in numbers]
        return numbers

    return below


def _rows_of_pass(iterator: Any, sampler: Any) -> int | None:
    """Return the number of rows that a sampler announces for a pass; None if the sampler announces no number, makes its
    batches in a way of its own, or deals out a rank's share of another sampler's batches."""
    if hasattr(sampler, "rows_of_rank"):  # of a rank of a script that trains in one process
        rows: int | None = sampler.rows_of_rank()
        return rows
    if hasattr(sampler, "batch_sampler"):
        return None
    if hasattr(sampler, "sampler"):  # batches of what another draws
        rows = _rows_of_pass(iterator, sampler.sampler) if hasattr(sampler.sampler, "sampler") else None
        rows = rows or length_of(sampler.sampler)
        size = getattr(sampler, "batch_size", None)
        return rows // size * size if rows and size and getattr(sampler, "drop_last", False) else rows
    return None if getattr(iterator, "_auto_collation", True) else length_of(sampler)


def length_of(thing: Any) -> int | None:
    """Return the number of items in `thing`; None if it has no length."""
    try:
        return len(thing)
    except (TypeError, NotImplementedError, AttributeError):
        return None  # what is only iterated over has none


def _identity(dataset: Any, depth: int = 0) -> str | None:
    """Return a text that identifies the content of a data set: its fingerprint, or some rows that it (or a data set
    below it) holds in an attribute, with its attributes that are numbers and texts. Return None if these say nothing:
    no row is read for this."""
    own = getattr(dataset, "_fingerprint", None)  # of Hugging Face's datasets
    if isinstance(own, str):
        return own
    parts = getattr(dataset, "datasets", None)
    if isinstance(parts, (list, tuple)) and depth < DEPTH:
        inner = [_identity(part, depth + 1) for part in parts]
        return None if None in inner else " ".join(str(each) for each in inner)
    length = length_of(dataset)
    columns = [column for column in _columns(dataset) if length and length_of(column) == length]
    column_texts = [
        _sample(column, length or 0) or (depth < DEPTH and _identity(column, depth + 1)) or "" for column in columns
    ]
    return " ".join([*column_texts, *_values(dataset)]) if any(column_texts) else None


def _values(dataset: Any) -> Iterator[str]:
    """Yield the attributes of a data set that are numbers and texts, such as its first row or its file: which row has
    which number may depend on them."""
    for name, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, (int, float, str, os.PathLike)):
            yield f"{name}={value}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _content(text: str) -> str:
    """Return a digest of an identity text that does not depend on the last digits of fractions: with another number of
    threads, a mean by which a script scales its rows is added up in another order."""
    fractions = [abs(float(each)) for each in FRACTION.findall(text)]
    sums = " ".join(f"{sum(fractions[first::2]):.4g}" for first in (0, 1))
    return f"{_digest(FRACTION.sub('', text))} {sums}"


def _columns(dataset: Any) -> Iterator[Any]:
    for value in getattr(dataset, "__dict__", {}).values():
        yield from value if isinstance(value, tuple) else (value,)


def _sample(column: Any, length: int) -> str:
    """Return some rows as text; "" if the rows do not tell the content, for example because all are alike, as if the
    data were read later."""
    rows = list(range(0, length, max(1, length // SAMPLED_ROWS)))
    if hasattr(column, "tolist"):  # of PyTorch or numpy
        sample = [_plain(column[row]) for row in rows]
    elif hasattr(column, "iloc"):  # of pandas
        sample = column.iloc[rows].to_numpy().tolist()
    else:
        sample = [column[row] for row in rows] if isinstance(column, list) else []
    texts = [repr(each) for each in sample]
    if len(set(texts)) < min(length, 2) or any(" at 0x" in text for text in texts):
        return ""
    return " ".join(texts)


def _plain(row: Any) -> Any:
    return row.reshape(-1)[:SAMPLED_NUMBERS].tolist() if getattr(row, "ndim", 0) else row.tolist()


def places(batch: Any) -> dict[int, Callable[[], bool]]:
    """Return the addresses of the first few tensors of a batch, each with a function that tells whether the tensor has
    been freed: an address is reused."""
    try:
        weak = sys.modules["torch"].multiprocessing.reductions.StorageWeakRef
        return {tensor.data_ptr(): weak(tensor.untyped_storage()).expired for tensor in _tensors(batch)}
    except (RuntimeError, AttributeError):  # sparse ones are nowhere
        return {}


def _tensors(batch: Any) -> Iterator[Any]:
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for each in batch[:MOST_PARTS]:
            yield from _tensors(each)
    elif hasattr(batch, "data_ptr"):
        yield batch


def leading_size(batch: Any) -> int:
    """Return the number of rows of a batch without row numbers: the first dimension of its first tensor."""
    if isinstance(batch, dict):
        return leading_size(next(iter(batch.values()))) if batch else 0
    if isinstance(batch, (list, tuple)):
        return leading_size(batch[0]) if batch else 0
    shape: Any = getattr(batch, "shape", None)
    return int(shape[0]) if shape else 1
