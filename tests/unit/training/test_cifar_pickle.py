"""CIFAR-10's files are read as data: whatever else a pickle can do is refused, and does not happen."""

import codecs
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.workloads.cnn import cifar_pickle, sources

PYTHON_2 = (
    b"(dp0\nS'data'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n(I0\ntp4\nS'b'\np5\ntp6\nRp7\n"
    b"(I1\n(I2\nI3\ntp8\ncnumpy\ndtype\np9\n(S'u1'\np10\nI0\nI1\ntp11\nRp12\n(I3\nS'|'\np13\nNNNI-1\nI-1\nI0\ntp14\nb"
    b"I00\nS'\\x00\\x01\\x02\\x03\\x04\\xff'\np15\ntp16\nbsS'labels'\np17\n(lp18\nI6\naI9\nas."
)
"""As the data set's own files are made: by Python 2, whose texts are bytes."""


class Calling:
    """A pickle that calls a function with arguments when it is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._called = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._called


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_python_3_pickles_is_read(protocol: int) -> None:
    """With every protocol, in both orders of memory, with labels as a list or an array."""
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    arrays = {b"data": pixels, b"fortran": np.asfortranarray(pixels), b"wide": np.array([1, -2], dtype=">i8")}

    read = cifar_pickle.load(pickle.dumps({b"labels": [1, 2], **arrays}, protocol))

    assert [1, 2] == read[b"labels"]
    for key, array in arrays.items():
        assert array.dtype == read[key].dtype
        assert np.array_equal(array, read[key])


def test_what_python_2_pickled_is_read() -> None:
    """The data set's own files are."""
    read = cifar_pickle.load(PYTHON_2)

    assert [6, 9] == read[b"labels"]
    assert np.array_equal(np.array([[0, 1, 2], [3, 4, 255]], np.uint8), read[b"data"])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_file_that_calls_something_is_refused_before_it_is_called(tmp_path: Path, protocol: int) -> None:
    """Said as what it is, with the file's name."""
    ran = tmp_path / "ran"
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Calling(os.mkdir, str(ran))}, protocol))

    with pytest.raises(sources.DatasetError, match=r"data_batch_1 .*posix\.mkdir"):
        sources.load_cifar10(str(tmp_path))

    assert not ran.exists()


@pytest.mark.parametrize(
    "named",
    [
        b"cnumpy\nload\n.",
        b"cnumpy.core.multiarray\nscalar\n.",
        b"cnumpy\nndarray.__class__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.",
        b"c_codecs\ndecode\n.",
        b"cbuiltins\neval\n.",
        b"cbuiltins\ngetattr\n.",
        pickle.dumps(Calling(codecs.encode, "x", "zip_codec")),
        pickle.dumps({b"data": np.array([{}], dtype=object)}),
        pickle.dumps({b"data": np.zeros(2)}),
        pickle.dumps([1]),
    ],
)
def test_no_other_name_is_known(named: bytes) -> None:
    """None of numpy's that reads files or makes objects, and nothing behind a dot of one that is known."""
    with pytest.raises(pickle.UnpicklingError):
        cifar_pickle.load(named)
