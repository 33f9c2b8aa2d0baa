"""The real engine, for the tests of this folder."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.program.engine import Project, cli_here

NewProject = Callable[..., Project]


@pytest.fixture(scope="session")
def cli() -> Path:
    """The Pulumi CLI of these tests."""
    found = cli_here()
    if not found:
        pytest.skip("no Pulumi CLI on PATH or in .tools: `./rwi test` brings it")
    return found


@pytest.fixture
def new_project(cli: Path) -> Iterator[NewProject]:
    """Makes projects, with arms that train nothing unless told otherwise; their folders go at the end.

    The path is short, because Ray has 107 bytes for a socket's.
    """
    with ExitStack() as folders:

        def make(*, stub: bool = True) -> Project:
            folder = folders.enter_context(tempfile.TemporaryDirectory(prefix="rwi", ignore_cleanup_errors=True))
            return Project(Path(folder), cli, stub=stub)

        yield make


@pytest.fixture
def project(new_project: NewProject) -> Project:
    """A project whose arms train nothing."""
    return new_project()
