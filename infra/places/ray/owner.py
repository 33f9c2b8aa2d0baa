"""Identifies this checkout's jobs on a shared Ray cluster.

A stack's name is not enough: every checkout has a stack `ray`.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from training.contract.provenance import PROJECT

FILE = Path(".state", "owner")


def of(stack: str, project: Path = PROJECT) -> str:
    """Return the mark of the stack's jobs, created once in a checkout. Raise OSError if that fails."""
    file = project / FILE
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(secrets.token_hex(8), encoding="utf-8")
        # A link is made only where there is none: when another update was first, its mark is the one in use
        with suppress(FileExistsError):
            os.link(partial, file)
        partial.unlink()
    return known_mark(stack, project)


def known_mark(stack: str, project: Path = PROJECT) -> str:
    """Return the mark of the stack's jobs, if it was created before; otherwise empty, which is no job's mark."""
    try:
        return f"{stack}-{(project / FILE).read_text(encoding='utf-8')}"
    except FileNotFoundError:
        return ""
