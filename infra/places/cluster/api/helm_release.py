"""Marks the Helm revisions that an interrupted update left pending as failed, so that the next update can continue.

Helm keeps a record of each revision in a Secret. While one is pending, it refuses to install ("cannot re-use a name
that is still in use") and to upgrade ("another operation is in progress"). It retries a failed one, in an upgrade
always, in an installation with `replace`, and keeps the objects that it had created.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

from infra.places.cluster.api import kube

PENDING = ("pending-install", "pending-upgrade", "pending-rollback")
FAILED = "failed"


def mark_failed(api: Any, namespace: str, release: str, statuses: Sequence[str] = PENDING) -> list[str]:
    """Mark the release's revisions that have one of these statuses as failed, and return the names of their Secrets.
    Raise KubeError if the cluster does not answer or refuses.

    Call this only in an update that holds Pulumi's lock, because then nothing else works on a pending revision.
    """
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    selector = f"owner=helm,name={release},status in ({','.join(statuses)})"
    revisions = kube.items(api, secrets, labelSelector=selector)
    for secret in revisions:
        change = {"metadata": {"labels": {"status": FAILED}}, "data": {"release": _failed(secret["data"]["release"])}}
        kube.patch(api, f"{secrets}/{secret['metadata']['name']}", change)
    return [str(secret["metadata"]["name"]) for secret in revisions]


def _failed(data: str) -> str:
    """Return Helm's record of a revision with the status changed to failed. Helm compresses and base64-encodes the
    record, and Kubernetes encodes the result once more."""
    record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(data))))
    record["info"]["status"] = FAILED
    packed = gzip.compress(json.dumps(record).encode())
    return base64.b64encode(base64.b64encode(packed)).decode()
