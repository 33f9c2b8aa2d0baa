"""Credentials of limited life for one run in pods, as a Pulumi dynamic resource: made before the run, kept in no state.

The role is assumed, and the answer goes into the Secret that pods have as a file. Another run, or the same made again,
gets others; what is left has ended by itself.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider

from infra.places.cluster import kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.pod_spec import PROJECT, PROJECT_LABEL, RUN_LABEL
from infra.places.cluster.storage_spec import FILE, SECRET, credentials_file
from infra.storage_role import Assumed, assumed
from training.launch.storage import UNTIL


class RunCredentials(Resource, module="cluster", name="RunCredentials"):
    """A role's credentials for one run."""

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RunCredentialsProvider(), name, properties, opts)


class RunCredentialsProvider(ResourceProvider):
    """Assumes the role when the run is made; forgets what it got."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """As the run itself, which is made again where it did not end well."""
        changed = [key for key in ("run", "namespace") if news.get(key) != olds.get(key)]
        if not changed and not _has_ended_well(olds["kubeconfig"], olds["namespace"], olds["name"]):
            changed = ["run"]
        return DiffResult(changes=bool(changed), replaces=changed)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Assume the role, and put what comes of it where pods find it. Raises Failure and KubeError."""
        return CreateResult(make(props).expires.isoformat(), props)


def make(props: Mapping[str, Any]) -> Assumed:
    """Assume a role, into the Secret of a namespace. Raises Failure and KubeError."""
    given = assumed(props["role"], props["timeoutMinutes"], props["name"])
    text = f"{UNTIL}{given.expires.isoformat()}\n{credentials_file(given.variables())}"
    wanted = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": props["namespace"], "labels": {PROJECT_LABEL: PROJECT}},
        "stringData": {FILE: text},
    }
    kube.apply(kube.connect(props["kubeconfig"]), _path(props["namespace"]), wanted)
    return given


def remove(props: Mapping[str, Any]) -> None:
    """The Secret. Raises KubeError."""
    kube.delete(kube.connect(props["kubeconfig"]), _path(props["namespace"]))


def _has_ended_well(kubeconfig: str, namespace: str, name: str) -> bool:
    """Whether a Job of that run has; what can't be asked is not made again."""
    ended = _ended_well(kubeconfig, namespace)
    return ended is None or name in ended


@cache
def _ended_well(kubeconfig: str, namespace: str) -> frozenset[str] | None:
    """The runs of which a Job has, by name; None where the cluster does not answer. Asked once in an update."""
    try:
        jobs = kube.items(kube.connect(kubeconfig), f"/apis/batch/v1/namespaces/{namespace}/jobs")
    except KubeError:
        return None
    return frozenset(
        str((job["spec"]["template"]["metadata"].get("labels") or {}).get(RUN_LABEL))
        for job in jobs
        if job.get("status", {}).get("succeeded")
    )


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
