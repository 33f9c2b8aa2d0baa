"""A role's credentials: as long as the run may take, in no Secret but the stack's. With a real STS: tests/storage."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra import storage_role
from infra.places.cluster import run_credentials
from infra.places.cluster.manifests.pod_parts import STACK_ANNOTATION
from infra.places.cluster.manifests.storage_access import ROLE_SECRET
from tests.unit.kube_api import NAMESPACE, Api, secret

ROLE = "arn:aws:iam::123456789012:role/training"


@pytest.mark.parametrize(("minutes", "seconds"), [(0.1, 906), (0, 900), (60, 4500), (705, 43_200)])
def test_a_role_is_assumed_for_a_run_s_time_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, minutes: float, seconds: int
) -> None:
    """And 15 minutes."""
    asked: list[dict[str, Any]] = []

    class Sts:
        def assume_role(self, **given: Any) -> Any:
            asked.append(given)
            ends = datetime.now(UTC) + timedelta(seconds=given["DurationSeconds"])
            return {
                "Credentials": {"AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", "Expiration": ends}
            }

    pytest.importorskip("botocore")
    monkeypatch.setattr(storage_role, "_client", Sts)
    monkeypatch.setattr(storage_role, "find_spec", lambda _: True)
    storage_role.assumed(ROLE, minutes, "ray-1")

    assert [seconds] == [given["DurationSeconds"] for given in asked]


@pytest.mark.parametrize("owner", ["ci", "another", None])
def test_no_secret_but_the_stack_s_is_deleted(owner: str | None, api: Api, kubeconfig: str) -> None:
    """One of the same name may be another stack's, or somebody's."""
    there = secret(ROLE_SECRET, {"credentials": "x"})
    there["metadata"]["annotations"] = {STACK_ANNOTATION: owner} if owner else {}
    api.put("/api/v1", "secrets", there, NAMESPACE)

    run_credentials.remove({"kubeconfig": kubeconfig, "namespace": NAMESPACE, "stack": "ci"})

    assert (owner != "ci") == bool([path for path in api.objects if path.endswith(ROLE_SECRET)])
