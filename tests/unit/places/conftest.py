"""What the tests of this folder share: an API server, what reaches it, and a clock that no test waits for."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from tests.unit.kube_api import Api, serving
from tests.unit.places.clock import Clock


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Api, str]]:
    """An API server that has nothing yet, and the path of a kubeconfig for it."""
    with serving(tmp_path) as both:
        yield both


@pytest.fixture
def api(served: tuple[Api, str]) -> Api:
    """The API server."""
    return served[0]


@pytest.fixture
def kubeconfig(served: tuple[Api, str]) -> str:
    """The path of a kubeconfig for it."""
    return served[1]


@pytest.fixture
def client(kubeconfig: str) -> Any:
    """A client of it."""
    return kube.connect(kubeconfig)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of everything in this process."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made
