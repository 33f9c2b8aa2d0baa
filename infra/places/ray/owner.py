"""Whose measurements are, on a Ray cluster that others measure on, too: a stack's of this checkout.

Names of stacks do not tell: the one that the project ships is `ray` everywhere.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from training.contract.provenance import PROJECT

FILE = Path(".state", "owner")


def of(stack: str, project: Path = PROJECT) -> str:
    """What the stack's jobs are marked with; made once in a checkout. Raises OSError."""
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
    """The same where it was made before; "", which no job has, where it was not."""
    try:
        return f"{stack}-{(project / FILE).read_text(encoding='utf-8')}"
    except FileNotFoundError:
        return ""
