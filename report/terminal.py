"""Text to a terminal that may not know every character. Layout is not its business."""

import sys
from typing import TextIO

from training.contract.printable import printable

_PLAIN = str.maketrans(
    {"×": "x", "±": "+-", "–": "-", "−": "-", "…": "...", "α": "alpha", "β": "beta", "µ": "u"}
    | dict(zip("█▓▒░·¹²³⁴⁵⁶⁷⁸⁹", "#%=-.123456789", strict=True))
)


def write(text: str, out: TextIO | None = None) -> None:
    """Print `text`, in ASCII where the encoding of `out` (stdout) lacks a character; names of others do nothing."""
    out, text = out or sys.stdout, printable(text)
    encoding = out.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, errors="replace").decode(encoding)
    out.write(text + "\n")
