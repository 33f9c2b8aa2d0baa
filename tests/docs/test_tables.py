"""Tables of the documents are shown as tables: an empty line in one would show the rows after it as plain text."""

import re
from itertools import groupby

import pytest

from tests.docs import markdown


def tables(text: str) -> list[list[str]]:
    """The lines of each table outside of fences."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    groups = groupby(prose.splitlines(), lambda line: line.lstrip().startswith("|"))
    return [list(lines) for is_table, lines in groups if is_table]


def broken(table: list[str]) -> list[str]:
    """The rows that are no row of a table: without a line of dashes below its head, or with another number of cells."""
    if len(table) < 3 or not re.fullmatch(r"\s*\|(?:\s*:?-+:?\s*\|)+", table[1]):
        return table
    cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table]
    return [row for row, count in zip(table, cells, strict=True) if count != cells[0]]


@pytest.mark.parametrize("document", markdown.documents())
def test_every_row_is_in_a_table(document: str) -> None:
    """Each has as many cells as its head."""
    assert [] == [row for table in tables(markdown.read(document)) for row in broken(table)]


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |\n",
        "| a | b |\n| 1 | 2 |\n| 3 | 4 |\n",
        "| a | b |\n| --- | --- |\n| 1 | 2 | 3 |\n",
    ],
)
def test_a_broken_table_is_found(text: str) -> None:
    """Each kind of mistake once."""
    assert any(map(broken, tables(text)))
