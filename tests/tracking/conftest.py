"""Servers for the tests of this folder, and MLflow's client where it is installed."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.tracking import servers
from tests.tracking.servers import Server


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is somebody else's test."""
    if find_spec("mlflow") is None:
        pytest.skip("MLflow's client is not installed: `uv sync --frozen --inexact --extra tracking`")
    monkeypatch.setattr("report.html.render", lambda comparison, stack, project: "the page")


@pytest.fixture(scope="module", params=servers.WAYS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each that there is."""
    if request.param == "real" and not servers.PYTHON:
        pytest.skip(servers.NO_SERVER)
    with servers.WAYS[request.param](tmp_path_factory.mktemp("mlflow")) as started:
        yield started
