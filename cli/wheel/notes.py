"""Prints what CHANGELOG.md says of a version, or why it is not ready: `python3 -m cli.wheel.notes v0.1.0`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def notes(tag: str, changelog: str, pyproject: str) -> str:
    """Return the section of CHANGELOG.md for a tag's version. Raise ValueError if pyproject.toml has another version,
    or the changelog has no such section."""
    named = re.search(r'^version = "(.+)"$', pyproject, re.MULTILINE)
    version = named[1] if named else ""
    if tag != f"v{version}":
        raise ValueError(
            f"the tag is {tag}, and pyproject.toml has version {version}: tag v{version}, or change it there"
        )
    part = re.search(
        rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if not part or not part[1].strip():
        raise ValueError(
            f"CHANGELOG.md says nothing of {version}: rename `## Unreleased` to `## {version} - YYYY-MM-DD`"
        )
    return part[1].strip() + "\n"


if __name__ == "__main__":
    texts = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "pyproject.toml"))
    try:
        sys.stdout.write(notes(sys.argv[1], *texts))
    except ValueError as error:
        sys.exit(f"error: {error}")
