"""One cluster of processes for the tests of this folder, and a namespace of it for each."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.places.cluster.api import kube
from tests.platform import programs
from tests.platform.cluster import Cluster, make_nodes
from tests.unit import crd


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Access to a cluster of 20 nodes, 4 of them with 2 GPUs each."""
    if reason := programs.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("platform")
    with programs.running(folder, crd.chart().crds()) as kubeconfig:
        make_nodes(kube.connect(str(kubeconfig)), int((folder / programs.KUBELET_PORT).read_text()))
        yield kubeconfig
    left = subprocess.run(
        ["pgrep", "--list-full", "--full", folder], check=False, capture_output=True, text=True
    ).stdout
    assert not left


@pytest.fixture
def cluster(platform: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A namespace of the test's own; the nodes are free when it begins."""
    name = request.node.name.replace("_", "-").removeprefix("test-")[:50].strip("-")
    made = Cluster(str(platform), name, kube.connect(str(platform)))
    made.make_namespace()
    yield made
    made.remove()
