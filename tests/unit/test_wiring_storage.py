"""Storage on a cluster, as the real program declares it: what is made for it, and before what."""

from functools import cache
from typing import Any

from tests.unit.test_wiring import record

ROLE = "storageRole=arn:aws:iam::123456789012:role/training"
SERVER = "storageEndpoint=http://minio.store.svc:9000"
ONE_NODE = ("minikubeNodes=1", "minikubeCpus=16", "minikubeMemory=32Gi")


@cache
def with_storage(*changes: str) -> Any:
    """The program of the stack minikube."""
    return record("minikube", *changes)


def test_a_claim_is_kept_and_tried_before_ray_is_there() -> None:
    """`destroy` deletes no storage."""
    recorded = with_storage("storage=pvc", *ONE_NODE)

    assert "claim" in recorded["retained"]
    assert "claim" in recorded["after"]["storage-probe"]
    assert "storage-probe" in recorded["after"]["operator-release"]
    assert "storage-probe" in recorded["retained"]
    assert {"size": "10Gi", "byManyNodes": False}.items() <= recorded["inputs"]["claim"].items()
    assert not [name for name in recorded["objects"] if "credentials" in name or name == "NetworkPolicy storage"]


def test_a_role_is_assumed_for_each_run_and_for_the_probe() -> None:
    """After the run before, so that each has its whole time; no input has what comes of it.

    What the probe was let in with goes with the stack.
    """
    recorded = with_storage("storage=s3://bucket/x", ROLE, SERVER)

    assert "baseline-1-credentials" in recorded["after"]["baseline-1"]
    assert "baseline-1-result" in recorded["after"]["wide-1-credentials"]
    assert "arn:aws:iam::123456789012:role/training" == recorded["inputs"]["storage-probe"]["role"]
    assert "storage-probe" not in recorded["retained"]
    given = recorded["inputs"]["baseline-1-credentials"]
    assert {"__provider", "kubeconfig", "name", "namespace", "role", "run", "stack", "timeoutMinutes"} == set(given)
    assert "NetworkPolicy storage" in recorded["objects"]
