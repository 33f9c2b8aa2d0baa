"""Bare API servers for the tests of this folder, with KubeRay's CRDs and the program's namespace in it."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.chart import crds_digest
from infra.places.cluster.crds import CrdsProvider
from infra.places.cluster.manifests.pod_parts import SERVICE_ACCOUNT
from tests.apiserver import control_plane
from tests.apiserver.clusters import Cluster
from tests.apiserver.control_plane import ROOT
from tests.unit import crd
from tests.unit.test_wiring import record


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Access to an API server that holds nothing yet."""
    missing = control_plane.missing_programs()
    if missing:
        pytest.skip(f"{', '.join(missing)} neither on PATH nor put there by CLUSTER_ENV, a file that is sourced")
    with control_plane.running(tmp_path_factory.mktemp("control-plane")) as path:
        yield path


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Access to the API server, for tests that need the CRDs in it."""
    crd.chart()  # skips: without the CRDs there is nothing to ask
    path: Path = request.getfixturevalue("server")
    return path


@pytest.fixture(scope="session")
def clusters(server: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """The stack's cluster, and another that has objects of the same names."""
    with control_plane.running(tmp_path_factory.mktemp("other-control-plane")) as path:
        ours, other = Cluster(server), Cluster(path)
        ours.make_namespace()
        other.make_namespace()
        other.make_objects()
        yield ours, other


@pytest.fixture(scope="session")
def crd_properties(kubeconfig: Path) -> dict[str, Any]:
    """Inputs of the program's resource for the CRDs of its chart."""
    chart = crd.chart()
    version = re.search(r"kuberayVersion:\n.*\n +default: \"(.+)\"", (ROOT / "Pulumi.yaml").read_text())
    return {
        "digest": crds_digest(chart.crds()),
        "chart": str(chart.path),
        "repository": "",
        "chartDigest": hashlib.sha256(chart.path.read_bytes()).hexdigest(),
        "version": version and version[1],
        "kubeconfig": str(kubeconfig),
        "takeOver": False,
    }


@pytest.fixture(scope="session")
def api(kubeconfig: Path, crd_properties: dict[str, Any]) -> Any:
    """A client that knows the CRDs; they and the namespace were made as the program makes them."""
    from kubernetes.client import CoreV1Api
    from kubernetes.dynamic import DynamicClient

    CrdsProvider().create(crd_properties)
    client = kube.client(str(kubeconfig))
    namespace = record("ci")["objects"]["Namespace network-namespace"]
    core = CoreV1Api(client)
    core.create_namespace(namespace)
    # Every pod has one, mounted or not; in a cluster a controller makes the first.
    for account in ("default", SERVICE_ACCOUNT):
        core.create_namespaced_service_account(namespace["metadata"]["name"], {"metadata": {"name": account}})
    return DynamicClient(client, cache_file=str(kubeconfig.with_name("discovery.json")))
