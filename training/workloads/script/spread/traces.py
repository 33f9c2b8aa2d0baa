"""From which batches a tensor was computed, and the weights of batches that have another share of rows than usual.

Operations are looked at only while such a batch is used: the last of a pass, most often.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

Origin = frozenset[tuple[int, int]]
NOTHING: Origin = frozenset()


class Traces:
    """The batches from which results were computed, by the memory that holds the results."""

    def __init__(self, parameter: type) -> None:
        """Start without traces. Parameters are not traced, because all batches change them."""
        self._parameter = parameter
        self._origins: dict[int, tuple[StorageWeakRef | None, Origin]] = {}

    def mark(self, tensor: Any, origin: Origin) -> None:
        """Record from which batches a tensor was computed."""
        place = _place(tensor)
        self._origins[place] = StorageWeakRef(tensor.untyped_storage()) if place else None, origin

    def of(self, tensor: Any) -> Origin:
        """Return the batches from which a tensor was computed, as (number of the pass, number in the pass). Memory that
        was freed meanwhile holds another tensor, so it has no trace."""
        memory, origin = self._origins.get(_place(tensor), (None, NOTHING))
        return NOTHING if memory is not None and memory.expired() else origin

    def follow(self, inputs: Iterable[Any], results: Any) -> Origin:
        """Record that the results were computed from the batches of the inputs, and return these batches."""
        origin = NOTHING
        for each in tensors(inputs):
            origin |= self.of(each)
        for each in tensors((results,)):
            if isinstance(each, self._parameter):
                continue
            if origin:
                self.mark(each, origin)
            else:
                self._origins.pop(_place(each), None)
        return origin

    def clear(self) -> None:
        """Forget all traces."""
        self._origins.clear()


class Follower(TorchDispatchMode):  # type: ignore[misc]
    """Follows each operation of PyTorch, so that its results are traced to batches."""

    def __init__(self, traces: Traces) -> None:
        """Keep `traces`; operations are followed only within this context."""
        super().__init__()
        self._traces = traces

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._traces.follow((*args, *(kwargs or {}).values()), result)
        return result


def _place(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def tensors(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the tensors among the values, and in lists and tuples of values."""
    for value in values:
        if hasattr(value, "untyped_storage"):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)


def mapped(torch: Any, content: Any, look: Callable[[Any], Any]) -> Any:
    """Return a batch in which each tensor is replaced by the result of `look`."""
    if isinstance(content, torch.Tensor):
        return look(content)
    if isinstance(content, tuple) and hasattr(content, "_fields"):
        return type(content)(*(mapped(torch, each, look) for each in content))
    if type(content) in (list, tuple):
        return type(content)(mapped(torch, each, look) for each in content)
    if hasattr(content, "items") and hasattr(content, "keys"):
        with contextlib.suppress(Exception):
            for key in list(content.keys()):
                content[key] = mapped(torch, content[key], look)
    elif hasattr(content, "__dict__"):
        for key, each in list(vars(content).items()):
            if isinstance(each, torch.Tensor):
                setattr(content, key, look(each))
    return content
