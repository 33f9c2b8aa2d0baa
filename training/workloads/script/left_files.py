"""Files that a run of a script leaves: for storage, where they outlive the run, and in the script's own folder, where
every later run finds such a cache or checkpoint."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from training.launch.storage.run_storage import Storage
from training.workloads.script.detail import Artifact

FOLDER = "artifacts"
"""Folder of the artifacts, in the run's folder in storage."""
MOST_LOOKED_AT, MOST_SAID = 5_000, 3
"""Most files that are looked at, and most files that are named."""
PASSED_OVER = ("__pycache__", ".git", ".venv", "node_modules", ".state", "runs", "results")
"""Folders that no training reads from, or that do not belong to the training."""

Looked = Mapping[str, tuple[int, int]]
"""Size in bytes and time of the last change in ns of each file, by its path."""


def keep(folder: Path, patterns: list[str], address: str) -> list[Artifact]:
    """Copy the files in a script's folder `{storage}` that match the patterns to storage, and return a record of each.
    Raise OSError if storage fails. The folder itself is deleted after the run."""
    storage = Storage.at(address).within(FOLDER)
    return [
        _kept(path, path.relative_to(folder).as_posix(), storage) for path in sorted(set(_matching(folder, patterns)))
    ]


def _matching(folder: Path, patterns: list[str]) -> Iterator[Path]:
    """Yield the files in the folder that match a pattern, without links that lead out of the folder."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                yield path


def _kept(path: Path, name: str, storage: Storage) -> Artifact:
    storage.put(path, name)
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return Artifact(path=f"{FOLDER}/{name}", sha256=digest, bytes=path.stat().st_size)


def look(folder: Path) -> Looked:
    """Return size and last change of the files below a folder, not in PASSED_OVER; of MOST_LOOKED_AT at most."""
    sizes: dict[str, tuple[int, int]] = {}
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in PASSED_OVER)
        for name in sorted(files):
            path = Path(where, name)
            try:
                status = path.lstat()
            except OSError:  # it is gone
                continue
            sizes[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns)
            if len(sizes) >= MOST_LOOKED_AT:
                return sizes
    return sizes


def since(before: Looked, folder: Path) -> list[str]:
    """Return the first few files that were created or changed since `before`; [] if there are too many to tell."""
    now = look(folder)
    if max(len(before), len(now)) >= MOST_LOOKED_AT:
        return []
    return sorted(name for name, status in now.items() if before.get(name) != status)[:MOST_SAID]
