"""A stack on a real Minikube cluster: brought up once for all the tests of this folder, which run in their order."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import place
from tests.cluster.story import ClusterProject
from tests.program.engine import ROOT


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a chapter's failure as it happens: the story goes on for an hour, and may be interrupted."""
    if report.failed and report.nodeid.startswith("tests/cluster/"):
        print(f"\n{report.nodeid} failed:\n{report.longreprtext}")


@pytest.fixture(scope="session")
def project() -> Iterator[ClusterProject]:
    """A copy of the project with the stack `ci` as this place needs it; what it made goes at the end, pass or fail."""
    reason = place.lacking()
    if reason:
        pytest.skip(reason)
    cli = shutil.which("pulumi") or shutil.which("pulumi", path=str(ROOT / ".tools/pulumi/bin"))
    if not cli:
        pytest.skip("no Pulumi CLI on PATH or in .tools: `./rwi test --cluster` brings it")
    with tempfile.TemporaryDirectory(prefix="rwi", ignore_cleanup_errors=True) as folder:
        made = ClusterProject(Path(folder), Path(cli))
        made.create()
        try:
            yield made
        finally:
            made.clean()
