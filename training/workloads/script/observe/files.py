"""Files by which the ranks of a run tell each other something: whole ones, or none. Standard library only."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str) -> None:
    """Write a text file under another name and rename it, so that whoever reads the file has all of it."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def read(path: Path) -> str | None:
    """Return the text of a file; None if the file does not exist yet."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
