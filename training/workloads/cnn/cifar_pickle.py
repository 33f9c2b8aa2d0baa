"""CIFAR-10's files, which are pickles, read as data: nothing that a file names is imported or called.

A pickle may name any function of Python with its arguments, and unpickling calls it. Who may write into a data set's
folder or bucket is not who trains. So what numpy's arrays are pickled with is read into types of our own, and any other
name is refused.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def load(content: bytes) -> dict[bytes, Any]:
    """Return the mapping in a file, with arrays of integers. Raise UnpicklingError, or what a damaged pickle raises."""
    read = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(read, dict):
        raise pickle.UnpicklingError(f"it holds a {type(read).__name__}, and no mapping")
    return {key: value.array() if isinstance(value, _Array) else value for key, value in read.items()}


class _Type:
    """Stands in for numpy's dtype while a pickle is read."""

    def __init__(self, code: bytes | str, *_: Any) -> None:
        self._code, self._order = _text(code), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = _text(state[1])

    def dtype(self) -> np.dtype[Any]:
        kind = np.dtype(self._code)
        if kind.kind not in "ui":
            raise pickle.UnpicklingError(f"it holds an array of {kind}, and no integers")
        return kind.newbyteorder(">" if self._order == ">" else "<")


class _Array:
    """Stands in for numpy's array while a pickle is read."""

    def __init__(self, *_: Any) -> None:
        self._state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._state = state[1:]

    def array(self) -> NDArray[Any]:
        shape, kind, is_fortran, raw = self._state
        return np.frombuffer(raw, kind.dtype()).reshape(shape, order="F" if is_fortran else "C")


def _from_buffer(raw: bytes, kind: _Type, shape: tuple[int, ...], order: str) -> _Array:
    """Return an array made from a buffer; numpy pickles arrays so from protocol 5 on."""
    array = _Array()
    array.__setstate__((1, shape, kind, _text(order) == "F", raw))
    return array


def _encoded(text: str, encoding: str) -> bytes:
    """Return the bytes of a text; Python 3 pickles bytes for Python 2 as text."""
    if _text(encoding) != "latin1":
        raise pickle.UnpicklingError(f"it has bytes in {encoding!r}, and not in latin1")
    return text.encode("latin1")


def _text(text: bytes | str) -> str:
    return text.decode("ascii") if isinstance(text, bytes) else text


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of CIFAR-10 does") from None
