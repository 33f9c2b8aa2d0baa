"""The claim of storage pvc: refused before anything is made where it can't be had, taken up, grown, never deleted."""

from typing import Any

import pytest

from infra.places.cluster import claim
from infra.places.cluster.api import kube
from infra.places.cluster.claim import ClaimProvider, ClaimRefusedError
from infra.places.cluster.manifests.storage_access import CLAIM, claim_object
from infra.settings.storage import Claim
from tests.golden import Wording
from tests.unit.kube_api import NAMESPACE, Api

STACK = "mine"


def wanted(size: str = "10Gi", storage_class: str | None = None, *, many: bool = True) -> Claim:
    """A claim."""
    return Claim(storage_class=storage_class, size=size, by_many_nodes=many)


class Cluster:
    """One with StorageClasses."""

    def __init__(self, api: Api, kubeconfig: str) -> None:
        self.api, self.kubeconfig = api, kubeconfig
        self.add_class("shared", "nfs.csi.k8s.io", default="true", grows=True)
        self.add_class("disk", "ebs.csi.aws.com")

    def add_class(self, name: str, provisioner: str, *, default: str = "false", grows: bool = False) -> None:
        """A StorageClass."""
        metadata = {"name": name, "annotations": {claim.DEFAULT: default}}
        made = {"metadata": metadata, "provisioner": provisioner, "allowVolumeExpansion": grows}
        self.api.put("/apis/storage.k8s.io/v1", "storageclasses", made)

    def has(self, there: Claim, stack: str = STACK) -> None:
        """The claim is there, as its class made it."""
        made = claim_object(there, stack, NAMESPACE)
        made["spec"].setdefault("storageClassName", "shared")
        self.api.put("/api/v1", "persistentvolumeclaims", made, NAMESPACE)

    def refusals(self, asked: Claim) -> list[tuple[str, tuple[str, ...]]]:
        """Why it can't be had."""
        problems = claim.refusals(kube.connect(self.kubeconfig), asked, STACK, NAMESPACE)
        return [(problem.what, problem.fixes) for problem in problems]

    def properties(self, asked: Claim) -> dict[str, Any]:
        """Of the resource."""
        return claim.properties(asked, STACK, NAMESPACE, self.kubeconfig)

    @property
    def claim(self) -> dict[str, Any]:
        """What is there."""
        return self.api.objects[claim.path(NAMESPACE)]


@pytest.fixture
def cluster(served: tuple[Api, str]) -> Cluster:
    """One that answers."""
    return Cluster(*served)


def test_it_is_made_with_whose_it_is(cluster: Cluster) -> None:
    """Written by many nodes, of the default class, by what the stack asked for."""
    ClaimProvider().create(cluster.properties(wanted()))

    assert cluster.claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    assert STACK in cluster.claim["metadata"]["annotations"].values()


def test_one_that_the_stack_left_is_taken_up_and_grows(cluster: Cluster) -> None:
    """Its class and its modes stay what they are: neither can be changed."""
    cluster.has(wanted("10Gi"))

    ClaimProvider().create(cluster.properties(wanted("20Gi", many=False)))

    assert "20Gi" == cluster.claim["spec"]["resources"]["requests"]["storage"]
    assert ["ReadWriteMany"] == cluster.claim["spec"]["accessModes"]


@pytest.mark.parametrize(
    ("there", "asked", "why", "way"),
    [
        (wanted("20Gi"), wanted("10Gi"), "claims cannot shrink", "storageSize 20Gi"),
        (wanted("10Gi", "disk"), wanted("20Gi", "disk"), "does not allow expansion", "storageSize 10Gi"),
        (wanted("10Gi"), wanted("10Gi", "disk"), "can't be changed", "storageClass shared"),
        (wanted(many=False), wanted(), "is written by pods of one node", "one-node.yaml"),
        (None, wanted(storage_class="none"), "no StorageClass none", "storageClass shared"),
        (None, wanted(storage_class="disk"), "are written by the pods of one node", "one-node.yaml"),
    ],
)
def test_one_that_can_t_be_had_so_is_refused(
    cluster: Cluster, there: Claim | None, asked: Claim, why: str, way: str
) -> None:
    """Before anything is made, with the line that mends it; and by the resource, too."""
    if there:
        cluster.has(there)
    before = str(cluster.api.objects)

    ((said, ways),) = cluster.refusals(asked)

    assert why in said
    assert any(way in line for line in ways)
    with pytest.raises(ClaimRefusedError, match="pulumi config set"):
        ClaimProvider().create(cluster.properties(asked))
    assert before == str(cluster.api.objects)


@pytest.mark.parametrize(
    ("size", "line"),
    [
        ("1e12", "storageSize 931.322574615479Gi"),
        ("64Ti", "storageSize 64Ti"),
        ("1Pi", f"namespace {NAMESPACE}-2"),
        ("2E", f"namespace {NAMESPACE}-2"),
    ],
)
def test_a_size_is_read_as_a_cluster_writes_it(cluster: Cluster, size: str, line: str) -> None:
    """In units and numbers that no setting has; the line is one that the settings take."""
    cluster.has(wanted(size))

    ((_, ways),) = cluster.refusals(wanted("10Gi"))

    assert (f"pulumi config set {line}",) == ways


def test_one_of_another_stack_stays_as_it_is(cluster: Cluster, wording: Wording) -> None:
    """And is named."""
    cluster.has(wanted(), stack="theirs")

    ((said, ways),) = cluster.refusals(wanted())

    assert all(name in said for name in (CLAIM, NAMESPACE, "theirs"))
    wording("cluster", said)
    assert (f"pulumi config set namespace {NAMESPACE}-2",) == ways


def test_pods_of_one_node_may_have_any_class_and_a_cluster_without_a_default_says_which_there_are(
    cluster: Cluster,
) -> None:
    """As a disk is; a claim without a class would wait for ever."""
    assert [] == cluster.refusals(wanted(storage_class="disk", many=False))
    assert [] == cluster.refusals(wanted())
    cluster.add_class("shared", "nfs.csi.k8s.io")

    ((said, ways),) = cluster.refusals(wanted())

    assert "no default StorageClass" in said
    assert ("pulumi config set storageClass disk", "pulumi config set storageClass shared") == ways


def test_what_another_claim_is_made_for(cluster: Cluster) -> None:
    """One that is gone is made again: pods would wait for it for ever. Size is changed in place, a namespace has one of
    its own, and `kubeconfig` decides nothing. Where the cluster does not say, nothing is changed."""
    olds = cluster.properties(wanted())
    asked = ClaimProvider().diff

    assert ["namespace"] == asked("", olds, olds).replaces
    assert not asked("", {**olds, "kubeconfig": "nowhere"}, olds).changes
    cluster.has(wanted())
    assert not asked("", olds, olds).changes
    assert not asked("", olds, {**olds, "kubeconfig": "elsewhere"}).changes
    grown = asked("", olds, {**olds, "size": "20Gi"})
    assert (True, []) == (grown.changes, grown.replaces)
    assert ["namespace"] == asked("", olds, {**olds, "namespace": "another"}).replaces


def test_one_that_is_being_deleted_is_refused(cluster: Cluster, wording: Wording) -> None:
    """It goes with the last pod that has it, and takes what was kept along."""
    cluster.has(wanted())
    cluster.claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    ((said, ways),) = cluster.refusals(wanted())

    wording("cluster", said)
    assert ("pulumi destroy --stack mine",) == ways
