"""Files and packages that a run needs where this project is not installed: on a Ray cluster, in a prebuilt image.

Imports no Pulumi. Each place sends the files in its own way.
"""

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from training.contract.provenance import PROJECT
from training.contract.recipe import Recipe
from training.contract.workload import named

LEAST_RAY = (2, 54)
"""The oldest Ray that is accepted: in older ones, a web page could run code through the dashboard (CVE-2026-27482)."""
LEAST_PYTHON = (3, 11)
"""The oldest Python that the project's modules support."""
TRAIN = dict.fromkeys(("fsspec", "pandas", "pyarrow", "pydantic", "requests"), "ray[train]")
"""The modules that Ray Train imports, each with the package that installs it."""
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The time stamp of every file in a zip file: the earliest time that the format allows."""


def needed(recipe: Recipe) -> dict[str, str]:
    """Return the modules that a run needs, each with the package that provides it."""
    return {"ray": "ray", **named(recipe.workload).modules(recipe), **TRAIN}


def dotted(version: tuple[int, ...]) -> str:
    """Return the version as text, such as `2.54`."""
    return ".".join(map(str, version))


def by_name(modules: Iterable[Path], folder: str = ".") -> dict[str, bytes]:
    """Return the contents of the project's files, by their path in the project, prefixed with `folder`."""
    return {Path(folder, path.relative_to(PROJECT)).as_posix(): path.read_bytes() for path in modules}


def zipped(files: Mapping[str, bytes], *, to: bytes = b"", mode: int = 0o644) -> bytes:
    """Return a zip file with these files, added to the files in the zip file `to`. Its bytes depend only on the files'
    names, contents and `mode`."""
    packed = io.BytesIO(to)
    with zipfile.ZipFile(packed, "a") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.external_attr = mode << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
