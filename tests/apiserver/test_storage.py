"""A real API server takes the claim and the Secret of storage as they are applied, again and again."""

from pathlib import Path
from typing import Any

from infra.places.cluster import claim, kube
from infra.places.cluster.claim import ClaimProvider
from infra.places.cluster.storage_spec import CLAIM, FILE, ROLE_SECRET
from infra.settings.settings import Claim

NAMESPACE = "default"
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
    ((said, _),) = claim.refusals(api, wanted, "theirs", NAMESPACE)
    assert "is of stack mine" in said


def test_a_secret_has_what_was_applied_last(server: Path) -> None:
    """As a run's credentials are: made where it is not there, and gone when it is deleted twice."""
    api, path = kube.connect(str(server)), f"/api/v1/namespaces/{NAMESPACE}/secrets/{ROLE_SECRET}"
    for text in ("first", "second"):
        wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ROLE_SECRET}, "stringData": {FILE: text}}
        kube.apply(api, path, wanted)

    assert "c2Vjb25k" == kube.get(api, path)["data"][FILE]
    for _ in range(2):
        kube.delete(api, path)
