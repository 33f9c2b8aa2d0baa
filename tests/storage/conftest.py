"""A cloud of this machine for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.storage import cloud as clouds
from tests.storage.cloud import Cloud


@pytest.fixture(scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    pytest.importorskip("moto", reason="`uv sync` brings the S3 server of these tests")
    with clouds.running(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@pytest.fixture
def cloud(_cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """One that refuses nothing without need."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    _cloud.refusal = ""
    return _cloud


@pytest.fixture
def as_caller(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the user who may assume roles."""
    for name, value in cloud.variables(cloud.caller).items():
        monkeypatch.setenv(name, value)
