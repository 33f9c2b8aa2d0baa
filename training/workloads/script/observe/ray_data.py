"""Rows that Ray Data delivers, and the waits for them: of `iter_batches`, and of what is built on it, as
`iter_torch_batches` and `to_tf`.

Rows of Ray Data have no numbers, so which ones were delivered is not known; how many is counted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from . import guard, state, torch_loaders
from .loaders import Loader, Pass
from .state import NO_PART
from .step_parts import BETWEEN, INPUT

UNNAMED = "unknown_dataset"
"""The name that Ray gives to a data set without a name."""


@guard.guarded("batches of Ray Data can't be observed")
def observe_batches(module: Any) -> None:
    """Count what Ray Data's iterators deliver to this process. `module`: ray.data.iterator."""
    make = getattr(module.DataIterator, "_iter_batches", None)
    if make is None:
        state.note("batches of Ray Data are not seen in this version of Ray")
        return

    module.DataIterator._iter_batches = _make(make)


@guard.around("batches of Ray Data are not seen", *guard.ROWS, guard.WAITS)
def _make(self: Any, *_: Any, **__: Any) -> Generator[None, Any, guard.Instead]:
    batches = yield
    return guard.Instead(type(batches)(functools.partial(_delivered, batches, _key(self))))


def _key(iterator: Any) -> int:
    """Return a number that stands for the iterator's data set, so that its rows are counted together: a worker may get
    a new iterator for each epoch."""
    try:
        name = str(iterator._get_dataset_tag()["dataset"])
    except Exception:  # noqa: BLE001 (of another version)
        name = UNNAMED
    return id(iterator) if name == UNNAMED else hash(("ray.data", name))


def _delivered(batches: Iterable[Any], key: int) -> Iterator[Any]:
    """Yield the batches of one pass as Ray does, and count them."""
    iterator: Any = None

    def read() -> Any:
        nonlocal iterator
        iterator = iter(batches) if iterator is None else iterator
        return next(iterator)

    read_observed = _read(read, _Reading(key))
    try:
        while True:
            try:
                batch = read_observed()
            except StopIteration:
                return
            yield batch
    finally:
        close = getattr(iterator, "close", None)  # a loop that ends early: Ray stops reading then
        if close is not None:
            close()


@guard.around("rows of Ray Data could not be counted", *guard.ROWS, guard.PARTS, guard.WAITS)
def _read(reading: _Reading) -> Iterator[None]:
    now, learns = state.current(), _learns()
    reading.begin()
    with now.part(INPUT if learns else BETWEEN), now.input_wait if learns else NO_PART:
        try:
            batch: Any = yield
        except StopIteration:
            reading.end()
            return
    reading.deliver(batch)


class _Reading:
    """One pass of an iterator over a data set of Ray Data."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._pass: Pass | None = None
        self._is_begun = False

    def begin(self) -> None:
        """Record that the script asks for a batch of the pass, the first or another one."""
        if not self._is_begun and _learns():
            state.current().parts.begin_pass()
        self._is_begun = True

    def deliver(self, batch: Any) -> None:
        """Record that a batch was delivered."""
        now = state.current()
        if _learns():
            now.parts.deliver()
            now.input_wait.deliver()
        with now.hook():
            self._count(now, batch)

    def end(self) -> None:
        """Record that the pass has no more batches."""
        now = state.current()
        if now.parts_here() is not None:
            now.parts.end_pass()
        if now.is_in_step_thread():
            now.device.end_pass(len(now.step_ends))
        with now.hook():
            self._end(now)

    def _count(self, now: state.State, batch: Any) -> None:
        if self._key not in now.loaders:
            now.add(self._key, Loader(None, None, None))
        loader, steps, entered = now.loaders[self._key], len(now.step_ends), now.work.training.numbers
        if self._pass is None:
            self._pass = loader.begin(steps, _learns(), entered)
        elif _learns():
            loader.go_on(self._pass, steps, entered)
        if _learns():
            now.deliver(loader, torch_loaders.places(batch) if "torch" in sys.modules else {})
            loader.deliver(torch_loaders.leading_size(batch), None, self._pass)

    def _end(self, now: state.State) -> None:
        loader = now.loaders.get(self._key)
        if self._pass is None or loader is None:
            return
        loader.end(self._pass, len(now.step_ends))
        if loader is now.training() and now.is_in_step_thread():
            now.look_at_weights()


def _learns() -> bool:
    """Return whether the model can learn from the data that is read now: whether PyTorch has gradients on. Without
    PyTorch return True, because other frameworks do not tell."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())
