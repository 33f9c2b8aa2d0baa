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
    """The batches that results come from, by the memory that they are in."""

    def __init__(self, parameter: type) -> None:
        """Know of none. Nothing is noted of parameters, which all batches change."""
        self._parameter = parameter
        self._origins: dict[int, tuple[StorageWeakRef | None, Origin]] = {}

    def mark(self, tensor: Any, origin: Origin) -> None:
        """Note where a tensor comes from."""
        place = _place(tensor)
        self._origins[place] = StorageWeakRef(tensor.untyped_storage()) if place else None, origin

    def of(self, tensor: Any) -> Origin:
        """Return the batches that it was computed from: numbers of the pass and in the pass. Memory that was free
        meanwhile is another's."""
        memory, origin = self._origins.get(_place(tensor), (None, NOTHING))
        return NOTHING if memory is not None and memory.expired() else origin

    def follow(self, inputs: Iterable[Any], results: Any) -> Origin:
        """Note that results come from what inputs come from, which is returned."""
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
        """Forget all."""
        self._origins.clear()


class Follower(TorchDispatchMode):  # type: ignore[misc]
    """Follows each operation."""

    def __init__(self, traces: Traces) -> None:
        """Follow nothing yet."""
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
    """Return the tensors in values, and in lists of them."""
    for value in values:
        if hasattr(value, "untyped_storage"):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)


def mapped(torch: Any, content: Any, look: Callable[[Any], Any]) -> Any:
    """Return a batch with each of its tensors as `look` gives it."""
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
