"""When two ranks' data sets are known to be one: by what they hold, of any framework and without reading a row."""

from pathlib import Path
from typing import Any

from training.workloads.script.observe.torch_loaders import _content, _identity


class Rows:
    """A data set that holds its rows, and where it begins."""

    def __init__(self, rows: Any, **settings: Any) -> None:
        self.rows = rows
        self.__dict__.update(settings)

    def __len__(self) -> int:
        return 4


def test_what_a_number_means_may_follow_from_numbers_and_names() -> None:
    """Each rank that begins elsewhere, or in another file, has other rows by the same numbers."""
    rows = [1, 2, 3, 4]
    same = _identity(Rows(rows, first=0, file="part-0"))
    others = [
        Rows(rows, first=1, file="part-0"),
        Rows(Rows(rows, first=1, file="part-0"), first=0),
        Rows(rows, first=0, file="part-1"),
        Rows(rows, first=0, file=Path("part-1")),
    ]

    assert same == _identity(Rows(list(rows), first=0, file="part-0"))
    assert len({same, *map(_identity, others[:3])}) == 4
    assert _identity(others[2]) == _identity(others[3])


def test_rows_that_are_all_alike_say_nothing() -> None:
    """They may be filled in when they are read; nor do numbers alone, as of a data set that reads rows from files."""
    assert {None} == {_identity(Rows(column)) for column in ([None] * 4, [0] * 4, [(0.0, 0.0)] * 4)}
    assert _identity(Rows([None, None, None, 1]))
    assert None is _identity(Rows(None, first=0))


def test_the_same_rows_scaled_by_other_threads_have_the_same_content() -> None:
    """A mean is another one in its last digit by the order in which it is added up."""
    one, other, half = (
        [shift + row / 7 for row in rows]
        for shift, rows in ((0.1, range(4)), (0.1 + 1e-9, range(4)), (0.1, (0, 1, 0, 1)))
    )
    texts = [str(_identity(Rows(rows))) for rows in (one, other, half)]
    contents = [_content(text) for text in texts]

    assert texts[0] != texts[1]
    assert contents[0] == contents[1] != contents[2]
