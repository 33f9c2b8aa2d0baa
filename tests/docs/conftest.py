"""A copy of the project for the commands of the documents, on the real engine."""

from pathlib import Path

import pytest

from tests.docs import session
from tests.program.conftest import NewProject, cli, new_project
from tests.program.engine import Project

__all__ = ["cli", "new_project"]


@pytest.fixture
def project(new_project: NewProject, cli: Path) -> Project:
    """Complete, and with arms that train nothing."""
    made = new_project()
    session.prepare(made, cli)
    return made
