"""Checkpoints: folders of files, each whole with its manifest alone. Kept in storage for the arms without Ray.

Not what is in them, which is the workload's, and not Ray Train's own way to keep them: `training.launch.ray.recovery`.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from training.contract.codec import write_whole
from training.launch.storage.run_storage import Storage

MANIFEST = "manifest.json"
"""Name of the file that describes a checkpoint: epoch, score, and the SHA-256 of every other file. It is written last,
so a checkpoint without it is incomplete."""
FOLDER = "checkpoints"
"""Folder of the checkpoints, in the run's folder in storage."""


@dataclass(frozen=True)
class Manifest:
    """The description of a checkpoint, stored in it."""

    epoch: int
    score: float
    """Score of the checkpoint; the lower, the better."""
    files: dict[str, str]
    """SHA-256 of each file, by the file's name."""


def seal(folder: Path, epoch: int, score: float) -> None:
    """Make a folder of files a checkpoint, by writing its manifest. Nothing may be written into it afterwards."""
    files = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    write_whole(folder / MANIFEST, json.dumps({"epoch": epoch, "score": score, "files": files}, indent=1))


def whole(folder: Path) -> Manifest | None:
    """Return the manifest of a checkpoint whose files are unchanged since it was made; None for any other folder."""
    try:
        manifest = _read(folder / MANIFEST)
        same = all(_digest(folder / name) == digest for name, digest in manifest.files.items())
    except (OSError, ValueError, TypeError):
        return None
    return manifest if same else None


def manifests(storage: Storage) -> dict[str, Manifest]:
    """Return the manifests of all checkpoints in a folder of the storage and below it, by the checkpoints' folders.
    Manifests that cannot be read are left out."""
    read: dict[str, Manifest] = {}
    with tempfile.TemporaryDirectory(prefix="manifests-") as copies:
        for name in [name for name in storage.names() if PurePosixPath(name).name == MANIFEST]:
            with suppress(OSError, ValueError, TypeError):
                storage.fetch(name, Path(copies, name))
                read[str(PurePosixPath(name).parent)] = _read(Path(copies, name))
    return read


def newest_in(storage: Storage) -> AbstractContextManager[Path | None]:
    """Return a context manager that gives a copy of the newest complete checkpoint in a folder of the storage and below
    it; None if there is none."""
    return _newest_of(manifests(storage), storage)


@contextmanager
def _newest_of(known: dict[str, Manifest], storage: Storage) -> Iterator[Path | None]:
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as copies:
        newest_first = sorted(known, key=lambda name: (known[name].epoch, name), reverse=True)
        fetched = (_fetched(storage.within(name), Path(copies, name)) for name in newest_first)
        yield next((folder for folder in fetched if whole(folder)), None)


class InStorage:
    """Keeps a run's best checkpoints, and the newest, in the run's folder in storage.

    It lists the storage once and caches the list, as Ray Train's manager does, so that arms without Ray spend the same
    time.
    """

    def __init__(self, storage: Storage, most: int) -> None:
        self._storage = storage.within(FOLDER)
        self._most = most
        self._scores: dict[str, float] | None = None

    def keep(self, folder: Path | None, metrics: dict[str, Any]) -> None:
        """Keep the checkpoint in `folder`, which is None on all ranks but 0, and delete those that are too many.

        Raises OSError if the storage does not take it; the earlier checkpoints are unchanged then.
        """
        if folder is None:
            return
        name, scores = f"epoch-{metrics['epoch']:05}", self._known_scores()
        for path in sorted(folder.iterdir(), key=lambda path: path.name == MANIFEST):
            self._storage.put(path, f"{name}/{path.name}")
        scores[name] = _read(folder / MANIFEST).score
        for worse in self._beyond(scores, name):
            self._storage.remove(f"{worse}/{MANIFEST}")  # first: what is left of it is then no checkpoint
            self._storage.within(worse).remove_all()
            del scores[worse]

    def newest(self) -> AbstractContextManager[Path | None]:
        """Return a context manager that gives a copy of the newest complete checkpoint; None if there is none."""
        known = manifests(self._storage)
        self._scores = _scores_of(known)
        return _newest_of(known, self._storage)

    def _known_scores(self) -> dict[str, float]:
        if self._scores is None:
            self._scores = _scores_of(manifests(self._storage))
        return self._scores

    def _beyond(self, scores: dict[str, float], newest: str) -> list[str]:
        """Return the names of the checkpoints that are too many: neither the newest nor among the best. Of checkpoints
        with equal scores the later counts as better."""
        worst_first = sorted(scores, key=lambda name: (math.isnan(scores[name]), scores[name]), reverse=True)
        return [name for name in worst_first[: -self._most] if name != newest]


def _scores_of(known: dict[str, Manifest]) -> dict[str, float]:
    return {name: known[name].score for name in sorted(known)}


def _fetched(checkpoint: Storage, folder: Path) -> Path:
    for file in checkpoint.names():
        checkpoint.fetch(file, folder / file)
    return folder


def _read(path: Path) -> Manifest:
    return Manifest(**json.loads(path.read_text(encoding="utf-8")))


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
