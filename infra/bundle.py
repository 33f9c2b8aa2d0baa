"""What is sent to where this project is not installed, a Ray cluster or an image of others, and what is needed there.

Pure; no Pulumi. How it gets there is the place's own.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from training.contract.provenance import PROJECT
from training.contract.recipe import Recipe
from training.contract.workload import named

LEAST_RAY = (2, 54)
"""Before, a page in a browser could run code by the dashboard (CVE-2026-27482)."""
LEAST_PYTHON = (3, 11)
"""Of the project's modules."""
TRAIN = dict.fromkeys(("fsspec", "pandas", "pyarrow", "pydantic", "requests"), "ray[train]")
"""Modules of Ray Train's, and what brings them."""
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""Every file's time: the first that a zip can have."""


def needed(recipe: Recipe) -> dict[str, str]:
    """Modules that have to be there, each with the package that brings it."""
    return {"ray": "ray", **named(recipe.workload).modules(recipe), **TRAIN}


def dotted(version: tuple[int, ...]) -> str:
    """As one writes it."""
    return ".".join(map(str, version))


def by_name(modules: Iterable[Path], folder: str = ".") -> dict[str, bytes]:
    """The project's files in a folder, as they lie in the project."""
    return {Path(folder, path.relative_to(PROJECT)).as_posix(): path.read_bytes() for path in modules}


def zipped(files: Mapping[str, bytes], *, to: bytes = b"", mode: int = 0o644) -> bytes:
    """A zip with these files by name, beside those that the zip `to` has; its bytes follow from names and contents."""
    packed = io.BytesIO(to)
    with zipfile.ZipFile(packed, "a") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.external_attr = mode << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
