"""Text to a terminal that may not know every character, and rows of it in columns."""

import sys
from collections.abc import Sequence
from typing import TextIO

from training.contract.printable import printable

_PLAIN = str.maketrans(
    {"×": "x", "±": "+-", "–": "-", "−": "-", "…": "...", "α": "alpha", "β": "beta", "µ": "u"}
    | dict(zip("█▓▒░·¹²³⁴⁵⁶⁷⁸⁹", "#%=-.123456789", strict=True))
)


def write(text: str, out: TextIO | None = None) -> None:
    """Print `text` to `out` (stdout by default). If the encoding of `out` lacks a character, signs are replaced
    by similar ones of ASCII, and what is still missing by `?`. Control characters in names have no effect."""
    out, text = out or sys.stdout, printable(text)
    encoding = out.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, errors="replace").decode(encoding)
    out.write(text + "\n")


def columns(title: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return title and rows as lines. A column is as wide as its longest cell, and no line ends in blanks."""
    lines = [title, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(title))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return [line.rstrip() for line in padded]
