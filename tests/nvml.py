"""A stand-in for NVIDIA's libnvidia-ml.so.1, built from `tests/unit/nvml_stand_in.c`: GPUs that nothing computes on.

`STAND_IN_…` variables say what they do. What it can't show is said in docs/gpus.md.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCE = Path(__file__).resolve().parent / "unit" / "nvml_stand_in.c"
NAME = "Stand-in 80GB"


def uuid(number: int) -> str:
    """The UUID of its first GPU, its second, …"""
    return f"GPU-00000000-0000-0000-0000-{number:012d}"


def library() -> Path:
    """The path of the library, in a folder of its own for LD_LIBRARY_PATH. Skips the test where nothing compiles C."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) builds the stand-in for NVIDIA's library")
    return _built()


@cache
def _built() -> Path:
    path = Path(mkdtemp(prefix="nvml-")) / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", path, SOURCE], check=True)
    return path
