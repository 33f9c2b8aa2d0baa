"""Rows of text in columns, as kubectl prints them. Knows nothing of what is in them."""

from __future__ import annotations

from collections.abc import Sequence


def columns(title: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The title and the rows as lines, each column as wide as it must be; no line ends in blanks."""
    lines = [title, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(title))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return [line.rstrip() for line in padded]
