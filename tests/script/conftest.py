"""What tests of scripts share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for runs of adversaries, which several tests look at; KEPT_ADVERSARIES names one that stays."""
    named = os.environ.get("KEPT_ADVERSARIES")
    return Path(named) if named else tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def proved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What is proved of those scripts of the module's TABLE that are asked for."""
    with request.module.TABLE.proved(request, tmp_path_factory.mktemp("plain")) as answers:
        yield answers
