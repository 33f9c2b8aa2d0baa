"""What tests of scripts share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for runs of adversaries, which several tests look at."""
    return tmp_path_factory.mktemp("kept")
