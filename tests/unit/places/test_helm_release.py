"""A release that an interrupted update left is marked so that Helm takes it up again."""

import base64
import gzip
import json
from typing import Any

import pytest

from infra.places.cluster.api import helm_release
from tests.unit.kube_api import NAMESPACE, Api, helm_revision

RELEASE = "kuberay-operator"


@pytest.fixture(autouse=True)
def _two_releases(api: Api) -> None:
    """Ours has three revisions."""
    for one in (
        helm_revision("v1", RELEASE, "superseded"),
        helm_revision("v2", RELEASE, "deployed"),
        helm_revision("v3", RELEASE, "pending-upgrade"),
        helm_revision("other", "somebody-s", "pending-install"),
    ):
        api.put("/api/v1", "secrets", one, NAMESPACE)


def statuses(api: Api) -> dict[str, tuple[str, str]]:
    """Of each revision the status in its label, by which Helm finds it, and in the record, by which Helm decides."""
    found = {}
    for secret in api.objects.values():
        content = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
        assert 1 == content["version"]
        found[secret["metadata"]["name"]] = (secret["metadata"]["labels"]["status"], content["info"]["status"])
    return found


def test_only_what_is_pending_of_our_release_is_marked(api: Api, client: Any) -> None:
    """What is deployed, and everybody else's, stays as it is; the rest of a record does too. Nothing pending, as in
    almost every update, changes nothing."""
    assert [] == helm_release.mark_failed(client, NAMESPACE, "none")
    assert {"GET"} == {line.split()[0] for line in api.asked}
    assert ["v3"] == helm_release.mark_failed(client, NAMESPACE, RELEASE)
    assert {
        "v1": ("superseded", "superseded"),
        "v2": ("deployed", "deployed"),
        "v3": ("failed", "failed"),
        "other": ("pending-install", "pending-install"),
    } == statuses(api)


def test_one_that_pulumi_never_noted_is_marked_although_it_is_deployed(api: Api, client: Any) -> None:
    """Helm would refuse to install beside it."""
    helm_release.mark_failed(client, NAMESPACE, RELEASE, ("deployed",))

    assert ("failed", "failed") == statuses(api)["v2"]
