"""Symbol tables are cut off real libraries, and these work as before."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training.image.strip_symbols import MAGIC, strip

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of a library that wheels bring unstripped: a part of TensorFlow's."""
    packages = Path(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    found = packages / "tensorflow" / "libtensorflow_framework.so.2"
    if not found.is_file() or not found.read_bytes().startswith(MAGIC):
        pytest.skip(f"{found} is no library of a 64 bit Linux")
    return Path(shutil.copy(found, tmp_path))


def test_a_stripped_library_is_smaller_and_loads(library: Path) -> None:
    """Its functions are found by name as before: those names are in a table that is loaded."""
    before = library.stat().st_size
    gone = strip(library)

    assert before - gone == library.stat().st_size
    assert gone > before / 10
    assert 0 == strip(library)
    code = f"import ctypes; print(bool(ctypes.CDLL({str(library)!r}).TF_NewStatus()))"
    assert "True\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_stripped_program_runs(tmp_path: Path) -> None:
    """This Python's own, whatever is behind its last segment."""
    program = Path(shutil.copy(Path(sys.executable).resolve(), tmp_path / "python"))
    if not program.read_bytes().startswith(MAGIC):
        pytest.skip("this Python is no program of a 64 bit Linux")
    strip(program)
    done = subprocess.run([program, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)

    assert "42\n" == done.stdout


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n" * 100, MAGIC + bytes(58)])
def test_what_is_no_binary_is_left_alone(content: bytes, tmp_path: Path) -> None:
    """Scripts, data, and what only begins like one."""
    file = tmp_path / "file"
    file.write_bytes(content)

    assert 0 == strip(file)
    assert content == file.read_bytes()
