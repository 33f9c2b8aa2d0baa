"""One cluster of processes for the tests of this folder, and a namespace of it for each."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.places.cluster.api import kube
from tests.limits import wait_for
from tests.platform import programs
from tests.platform.cluster import Cluster, make_nodes
from tests.platform.programs import Kueue
from tests.platform.queues import API, HIGH, POOL, QUEUE, ROOMY, give, is_active, of, quota_of
from tests.unit import crd


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Kueue]]:
    """Access to a cluster of 20 nodes, 4 of them with 2 GPUs each; and its Kueue."""
    if reason := programs.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("platform")
    with programs.running(folder, crd.chart().crds()) as (kubeconfig, kueue):
        make_nodes(kube.connect(str(kubeconfig)), int((folder / programs.KUBELET_PORT).read_text()))
        yield kubeconfig, kueue
    left = subprocess.run(
        ["pgrep", "--list-full", "--full", folder], check=False, capture_output=True, text=True
    ).stdout
    assert not left


@pytest.fixture
def kueue(platform: tuple[Path, Kueue]) -> Kueue:
    """The cluster's Kueue."""
    return platform[1]


@pytest.fixture
def cluster(platform: tuple[Path, Kueue], request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A namespace of the test's own; the nodes are free when it begins."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:50].strip("-")
    kubeconfig = str(platform[0])
    made = Cluster(kubeconfig, name, kube.connect(kubeconfig))
    made.make_namespace()
    yield made
    made.remove()


@pytest.fixture
def team(cluster: Cluster) -> Iterator[str]:
    """A ClusterQueue with room for everything, and the LocalQueue of the namespace; the first one's name."""
    name = f"team-{cluster.namespace}"
    flavor = of(
        "ResourceFlavor", "default", {"nodeLabels": POOL, "tolerations": [{"key": "test", "operator": "Exists"}]}
    )
    kube.apply(cluster.api, f"/apis/{API}/resourceflavors/default", flavor)
    for node in kube.items(cluster.api, "/api/v1/nodes"):
        kube.patch(cluster.api, f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": POOL}})
    kube.apply(cluster.api, f"/apis/{API}/workloadpriorityclasses/{HIGH}", of("WorkloadPriorityClass", HIGH, value=9))
    give(cluster, name, ROOMY)
    queue = of("LocalQueue", QUEUE, {"clusterQueue": name})
    kube.create(cluster.api, cluster.path(f"{API}/localqueues"), queue)
    wait_for(lambda: is_active(quota_of(cluster, name)))
    wait_for(lambda: is_active(kube.get(cluster.api, cluster.path(f"{API}/localqueues", QUEUE))))
    yield name
    kube.delete(cluster.api, cluster.path(f"{API}/localqueues", QUEUE))
    kube.delete(cluster.api, f"/apis/{API}/clusterqueues/{name}")
