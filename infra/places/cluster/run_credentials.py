"""Temporary credentials for one run in pods, as a Pulumi dynamic resource: created before the run, kept in no state.

The role is assumed, and its credentials go into the Secret that pods mount as a file. Another run, or a repeated one,
gets new ones; old ones expire by themselves. A Secret of that name that is not the stack's is never touched.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import base64
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.pod_parts import RUN_LABEL, STACK_ANNOTATION, labels
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS
from infra.places.cluster.manifests.storage_access import FILE, ROLE_SECRET, credentials_file
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by
from infra.storage_role import Assumed, assumed
from training.launch.storage.run_storage import UNTIL

KUBELET_SECONDS = 90.0
"""The seconds within which a kubelet updates a Secret in existing pods; the kubelet checks once a minute."""
_OF_RAY = ",".join(f"{key}={value}" for key, value in CLUSTER_LABELS.items())


class RunCredentials(Resource, module="cluster", name="RunCredentials"):
    """The temporary credentials of a role for one run."""

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RunCredentialsProvider(), name, properties, opts)


class RunCredentialsProvider(Provider):
    """Assumes the role when the resource is created; does not keep the credentials."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the credentials are replaced whenever the run is repeated, also after a failure, but not if only
        the run's Job is gone."""
        replaces = changed(olds, news, "run", "namespace")
        if not replaces and ended_well(olds) is False:
            return DiffResult(changes=True, replaces=["run"])
        return replaced_by(replaces)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Assume the role, and write its credentials into the Secret. Raises as `make` does.

        The pods of Ray exist already, and see a changed Secret only after a delay. If their old credentials have
        expired, this method waits for that delay.
        """
        api, namespace = kube.connect(props["kubeconfig"]), props["namespace"]
        holds = _holds(kube.find(api, _path(namespace)))
        credentials = make(props)
        if not holds and kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_OF_RAY):
            time.sleep(KUBELET_SECONDS)
        return CreateResult(credentials.expires.isoformat(), props)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Report the credentials as gone if the run's Job is, so that after a refresh both are recreated."""
        return ReadResult(id_ if ended_well(props) is not None else None, props)


class ForeignSecretError(UserError):
    """Raised if a Secret of the same name belongs to another stack, or to no stack."""


def make(props: Mapping[str, Any]) -> Assumed:
    """Assume the role, write its credentials into the namespace's Secret, and return them. Raise ProgramError if the
    role cannot be assumed, ForeignSecretError if the Secret is not the stack's, and KubeError if the cluster does not
    answer."""
    return make_there(kube.connect(props["kubeconfig"]), props)


def make_there(api: Any, props: Mapping[str, Any]) -> Assumed:
    """Do what `make` does, through a connected API client."""
    namespace, stack = props["namespace"], props["stack"]
    if whose := of_others(api, stack, namespace):
        raise ForeignSecretError(whose)
    credentials = assumed(props["role"], props["timeoutMinutes"], props["name"])
    text = f"{UNTIL}{credentials.expires.isoformat()}\n{credentials_file(credentials.variables())}"
    wanted = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ROLE_SECRET,
            "namespace": namespace,
            "labels": labels("storage", stack),
            "annotations": {STACK_ANNOTATION: stack},
        },
        "stringData": {FILE: text},
    }
    kube.apply(api, _path(namespace), wanted)
    return credentials


def _holds(secret: Mapping[str, Any] | None) -> bool:
    """Return whether the Secret's credentials have not expired."""
    first = base64.b64decode((secret or {}).get("data", {}).get(FILE, "")).decode().partition("\n")[0]
    return first.startswith(UNTIL) and datetime.fromisoformat(first.removeprefix(UNTIL)) > datetime.now(UTC)


def remove(props: Mapping[str, Any]) -> None:
    """Delete the Secret, unless it has another owner. Raise KubeError if that fails."""
    api = kube.connect(props["kubeconfig"])
    if not of_others(api, props["stack"], props["namespace"]):
        kube.delete(api, _path(props["namespace"]))


def of_others(api: Any, stack: str, namespace: str) -> str:
    """Return a sentence that names the owner of the Secret if the Secret is not this stack's; otherwise, or if the
    Secret does not exist, return an empty text. Raise KubeError if the cluster does not answer."""
    secret = kube.find(api, _path(namespace))
    owner = ((secret or {}).get("metadata", {}).get("annotations") or {}).get(STACK_ANNOTATION)
    if secret is None or owner == stack:
        return ""
    whose = f"stack {owner}" if owner else "another owner"
    return f"the Secret {ROLE_SECRET} in namespace {namespace} belongs to {whose}, and was not changed"


def ended_well(props: Mapping[str, Any]) -> bool | None:
    """Return whether a Job of the run succeeded; None if the run has no Job. True if the cluster does not answer."""
    ended = _by_run(props["kubeconfig"], props["namespace"])
    return True if ended is None else ended.get(props["name"])


@cache
def _by_run(kubeconfig: str, namespace: str) -> Mapping[str, bool] | None:
    """Return whether a Job succeeded, by run; None if the cluster does not answer. It is asked once in an update."""
    try:
        jobs = kube.items(kube.connect(kubeconfig), f"/apis/batch/v1/namespaces/{namespace}/jobs")
    except KubeError:
        return None
    succeeded = dict[str, bool]()
    for job in jobs:
        name = str((job["spec"]["template"]["metadata"].get("labels") or {}).get(RUN_LABEL))
        succeeded[name] = succeeded.get(name, False) or bool(job.get("status", {}).get("succeeded"))
    return succeeded


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets/{ROLE_SECRET}"
