"""Finds the files that a run left in the script's own folder: every later run finds such a cache or checkpoint."""

import os
from collections.abc import Mapping
from pathlib import Path

MOST_LOOKED_AT, MOST_SAID = 5_000, 3
"""Numbers of files."""
PASSED_OVER = ("__pycache__", ".git", ".venv", "node_modules", ".state", "runs", "results")
"""Folders that no training reads from, or that are not its own."""

Looked = Mapping[str, tuple[int, int]]
"""Size and time of the last change, in ns, by path."""


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
    """The first few files that were made or changed; none of a folder that has too many to tell."""
    now = look(folder)
    if max(len(before), len(now)) >= MOST_LOOKED_AT:
        return []
    return sorted(name for name, status in now.items() if before.get(name) != status)[:MOST_SAID]
