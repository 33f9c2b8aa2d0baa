"""What tests of scripts share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for runs of adversaries, which several tests look at; KEPT_ADVERSARIES names one that stays."""
    named = os.environ.get("KEPT_ADVERSARIES")
    return Path(named) if named else tmp_path_factory.mktemp("kept")
