"""Copies the files of a script's folder `{storage}` that match its patterns to storage, where they outlive the run.

The folder itself is deleted after the run.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from training.launch.storage.run_storage import Storage
from training.workloads.script.detail import Artifact

FOLDER = "artifacts"
"""Folder of the artifacts, in the run's folder in storage."""


def keep(folder: Path, patterns: list[str], address: str) -> list[Artifact]:
    """Copy what matches, and say what it is. Raises OSError where storage does not take it."""
    storage = Storage.at(address).within(FOLDER)
    return [
        _kept(path, path.relative_to(folder).as_posix(), storage) for path in sorted(set(_matching(folder, patterns)))
    ]


def _matching(folder: Path, patterns: list[str]) -> Iterator[Path]:
    """Files in the folder; a link that leads out of it is none."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                yield path


def _kept(path: Path, name: str, storage: Storage) -> Artifact:
    storage.put(path, name)
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return Artifact(path=f"{FOLDER}/{name}", sha256=digest, bytes=path.stat().st_size)
