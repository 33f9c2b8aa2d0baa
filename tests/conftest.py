"""Which tests may run beside which, for `pytest -n 2`: one after another they need none of this.

A group stays in one process and in its order. What trains for real is one group, so that no training runs beside
another, and comes first, because it is the longest; unit tests are the shortest and come last, to fill what is left.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TRAINS = "trains"
"""The group of what trains for real: the tests of these folders, and others with this mark."""
TRAINING_FOLDERS = ("training", "script")
SHARED_BY_A_FOLDER = ("apiserver", "image", "cluster")
"""Folders whose tests share what is made for them: servers, images, a cluster. In `unit` it is a file's tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark; several processes heed groups and order, though pytest-xdist's defaults heed neither."""
    config.addinivalue_line("markers", f"{TRAINS}: trains for real, so it runs beside no other that does")
    if config.getoption("dist", "no") == "load":
        config.option.dist, config.option.loadscopereorder = "loadgroup", False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In each of several processes: put the tests into groups and into that order."""
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        for group in _groups(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _groups(item: pytest.Item) -> Iterator[str]:
    folder = _folder(item)
    if _trains(item):
        yield TRAINS
    elif folder in SHARED_BY_A_FOLDER or item.path.parent == TESTS / "unit":  # here, records of the stacks' programs
        yield folder
    elif folder == "unit":
        yield item.path.relative_to(TESTS).as_posix()


def _place(item: pytest.Item) -> int:
    if _trains(item):
        return 0
    return 2 if _folder(item) == "unit" else 1


def _trains(item: pytest.Item) -> bool:
    return _folder(item) in TRAINING_FOLDERS or item.get_closest_marker(TRAINS) is not None


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]
