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
"""Numbers of files."""
PASSED_OVER = ("__pycache__", ".git", ".venv", "node_modules", ".state", "runs", "results")
"""Folders that no training reads from, or that are not its own."""

Looked = Mapping[str, tuple[int, int]]
"""Size and time of the last change, in ns, by path."""


def keep(folder: Path, patterns: list[str], address: str) -> list[Artifact]:
    """Copy the files of a script's folder `{storage}` that match to storage, and return what they are. Raises OSError.

    The folder itself is deleted after the run.
    """
    storage = Storage.at(address).within(FOLDER)
    return [
        _kept(path, path.relative_to(folder).as_posix(), storage) for path in sorted(set(_matching(folder, patterns)))
    ]


def _matching(folder: Path, patterns: list[str]) -> Iterator[Path]:
    """Yield files in the folder; a link that leads out of it is none."""
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
    """Return every file below; only the first MOST_LOOKED_AT if there are more."""
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
    """Return the first few files that were made or changed; none of a folder that has too many to tell."""
    now = look(folder)
    if max(len(before), len(now)) >= MOST_LOOKED_AT:
        return []
    return sorted(name for name, status in now.items() if before.get(name) != status)[:MOST_SAID]
