"""The CRDs on a real API server: applied, applied again, and left alone where another made them."""

from typing import Any

import pytest

from infra.places.cluster.api import kube
from infra.places.cluster.crds import LABEL, OWNER, CrdsProvider, ForeignCrdsError


@pytest.fixture
def definitions(api: Any, crd_properties: dict[str, Any]) -> Any:
    """The client for CRDs."""
    from kubernetes.client import ApiextensionsV1Api

    return ApiextensionsV1Api(kube.client(crd_properties["kubeconfig"]))


def owners(definitions: Any) -> dict[str, str]:
    """Who made which CRD."""
    found = definitions.list_custom_resource_definition().items
    return {crd.metadata.name: (crd.metadata.labels or {}).get(LABEL, "") for crd in found}


def test_they_are_marked_and_applied_again(definitions: Any, crd_properties: dict[str, Any]) -> None:
    """An `up` after a `destroy` finds them, for they stay, and takes them up."""
    before = owners(definitions)
    CrdsProvider().create(crd_properties)

    assert {OWNER} == set(before.values())
    assert "rayclusters.ray.io" in before
    assert before == owners(definitions)


def test_those_of_another_are_refused_and_left_as_they_are(definitions: Any, crd_properties: dict[str, Any]) -> None:
    """With what to set; in a cluster of our own they are taken over."""
    name = "rayclusters.ray.io"
    definitions.patch_custom_resource_definition(name, {"metadata": {"labels": {LABEL: "Helm"}}})

    with pytest.raises(ForeignCrdsError, match="pulumi config set operator existing") as refused:
        CrdsProvider().create(crd_properties)

    assert name in str(refused.value)
    assert "Helm" == owners(definitions)[name]

    CrdsProvider().update("kuberay-crds", {}, crd_properties | {"takeOver": True})

    assert OWNER == owners(definitions)[name]
