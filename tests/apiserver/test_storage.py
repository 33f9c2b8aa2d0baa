"""A real API server takes the claim and the Secret of storage as they are applied, again and again."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import claim, storage_preflight
from infra.places.cluster.api import kube
from infra.places.cluster.claim import ClaimProvider
from infra.places.cluster.manifests.storage_access import CLAIM, FILE, ROLE_SECRET
from infra.settings.storage import Claim
from tests.apiserver import control_plane
from tests.limits import LONGEST_SECONDS
from tests.unit.settings_machine import settings

NAMESPACE = "default"
OWN = "keeper"
"""A namespace in which a stack may be: not the one that everything is in."""
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "shared", "annotations": {claim.DEFAULT: "true"}},
    "provisioner": "nfs.csi.k8s.io",
    "allowVolumeExpansion": True,
}


def test_a_claim_is_made_and_taken_up_again(server: Path) -> None:
    """By what the stack asked for; of the class that the cluster chose, which no later apply changes."""
    api = kube.connect(str(server))
    kube.apply(api, "/apis/storage.k8s.io/v1/storageclasses/shared", STORAGE_CLASS)
    wanted = Claim(storage_class=None, size="1Gi", by_many_nodes=True)
    props = claim.properties(wanted, "mine", NAMESPACE, str(server))

    for _ in range(2):
        ClaimProvider().create(props)

    there: dict[str, Any] = kube.get(api, claim.path(NAMESPACE))
    assert (CLAIM, "shared") == (there["metadata"]["name"], there["spec"]["storageClassName"])
    assert ["ReadWriteMany"] == there["spec"]["accessModes"]
    assert [] == claim.refusals(api, wanted, "mine", NAMESPACE)
    (problem,) = claim.refusals(api, wanted, "theirs", NAMESPACE)
    assert "stack mine" in problem.what


def test_a_secret_has_what_was_applied_last(server: Path) -> None:
    """As a run's credentials are: made where it is not there, and gone when it is deleted twice."""
    api, path = kube.connect(str(server)), f"/api/v1/namespaces/{NAMESPACE}/secrets/{ROLE_SECRET}"
    for text in ("first", "second"):
        wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ROLE_SECRET}, "stringData": {FILE: text}}
        kube.apply(api, path, wanted)

    assert "c2Vjb25k" == kube.get(api, path)["data"][FILE]
    for _ in range(2):
        kube.delete(api, path)


@pytest.mark.parametrize("there", [None, {"ANOTHER": "x"}], ids=["no Secret", "another's names"])
def test_the_line_that_is_printed_gives_a_secret_what_it_lacks(server: Path, there: dict[str, str] | None) -> None:
    """Also where one is there, which `kubectl create` refuses; what it has stays."""
    search = control_plane.search_path()
    if shutil.which("kubectl", path=search) is None:
        pytest.skip("kubectl is neither on PATH nor put there by CLUSTER_ENV")
    api, path = kube.connect(str(server)), f"/api/v1/namespaces/{OWN}/secrets/keys"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}
    kube.apply(api, f"/api/v1/namespaces/{OWN}", namespace)
    kube.delete(api, path)
    if there:
        made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": there}
        kube.apply(api, path, made)
    asked = settings(
        target="kubernetes", kubeContext="a", image="registry.example.com/a:1", namespace=OWN,
        createNamespace="false", storage="s3://bucket/prefix", storageSecret="keys",
    )  # fmt: skip

    (problem,) = storage_preflight.problems(api, asked)

    assert all(name in problem.what for name in ("keys", "keeper", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    environment = os.environ | {"PATH": search, "KUBECONFIG": str(server)}
    subprocess.run(
        ["bash", "-c", f"set -o pipefail; {problem.fixes[0]}"], env=environment, check=True, timeout=LONGEST_SECONDS
    )
    assert [] == storage_preflight.problems(api, asked)
    assert {*(there or {}), "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} == set(kube.get(api, path)["data"])
