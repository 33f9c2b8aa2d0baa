"""Credentials of limited life for one run in pods, as a Pulumi dynamic resource: made before the run, kept in no state.

The role is assumed, and the answer goes into the Secret that pods have as a file. Another run, or the same made again,
gets others; what is left has ended by itself. A Secret of that name that is not the stack's is never touched.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import base64
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, ReadResult, Resource, ResourceProvider

from infra.places.cluster import kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.pod_spec import PROJECT, PROJECT_LABEL, RUN_LABEL, STACK_ANNOTATION
from infra.places.cluster.ray_cluster_spec import CLUSTER_LABELS
from infra.places.cluster.storage_spec import FILE, ROLE_SECRET, credentials_file
from infra.storage_role import Assumed, assumed
from training.launch.storage import UNTIL

KUBELET_SECONDS = 90.0
"""In which a kubelet brings a Secret to pods that are there: it looks once a minute."""
_OF_RAY = ",".join(f"{key}={value}" for key, value in CLUSTER_LABELS.items())


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
        """As the run itself, which is made again where it did not end well; one whose Job is gone is not."""
        changed = [key for key in ("run", "namespace") if news.get(key) != olds.get(key)]
        if not changed and _ended_well(olds) is False:
            changed = ["run"]
        return DiffResult(changes=bool(changed), replaces=changed)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Assume the role, and put what comes of it where pods find it. Raises as `make` does.

        Pods of Ray are there already, and get it by and by: what they have still holds, or no run begins before.
        """
        api, namespace = kube.connect(props["kubeconfig"]), props["namespace"]
        holds = _holds(kube.find(api, _path(namespace)))
        credentials = make(props)
        if not holds and kube.items(api, f"/api/v1/namespaces/{namespace}/pods", labelSelector=_OF_RAY):
            time.sleep(KUBELET_SECONDS)
        return CreateResult(credentials.expires.isoformat(), props)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Gone with the run's Job: a refresh that finds none has both made again."""
        return ReadResult(id_ if _ended_well(props) is not None else None, props)


class ForeignSecretError(Exception):
    """A Secret of the same name that is somebody else's."""


def make(props: Mapping[str, Any]) -> Assumed:
    """Assume a role, into the Secret of a namespace. Raises ProgramError, ForeignSecretError and KubeError."""
    return make_there(kube.connect(props["kubeconfig"]), props)


def make_there(api: Any, props: Mapping[str, Any]) -> Assumed:
    """The same, of an API server that is connected."""
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
            "labels": {PROJECT_LABEL: PROJECT},
            "annotations": {STACK_ANNOTATION: stack},
        },
        "stringData": {FILE: text},
    }
    kube.apply(api, _path(namespace), wanted)
    return credentials


def _holds(secret: Mapping[str, Any] | None) -> bool:
    """Whether what is in it has not ended."""
    first = base64.b64decode((secret or {}).get("data", {}).get(FILE, "")).decode().partition("\n")[0]
    return first.startswith(UNTIL) and datetime.fromisoformat(first.removeprefix(UNTIL)) > datetime.now(UTC)


def remove(props: Mapping[str, Any]) -> None:
    """The stack's Secret. Raises KubeError."""
    api = kube.connect(props["kubeconfig"])
    if not of_others(api, props["stack"], props["namespace"]):
        kube.delete(api, _path(props["namespace"]))


def of_others(api: Any, stack: str, namespace: str) -> str:
    """Whose the Secret is where it is not the stack's; "" where it is, or there is none. Raises KubeError."""
    secret = kube.find(api, _path(namespace))
    owner = ((secret or {}).get("metadata", {}).get("annotations") or {}).get(STACK_ANNOTATION)
    if secret is None or owner == stack:
        return ""
    whose = f"stack {owner}" if owner else "somebody else"
    return f"the Secret {ROLE_SECRET} in namespace {namespace} is of {whose}, and stays as it is"


def _ended_well(props: Mapping[str, Any]) -> bool | None:
    """Whether a Job of the run did; None where there is no Job of it. True for what can't be asked."""
    ended = _by_run(props["kubeconfig"], props["namespace"])
    return True if ended is None else ended.get(props["name"])


@cache
def _by_run(kubeconfig: str, namespace: str) -> Mapping[str, bool] | None:
    """Of each run that has a Job, whether one did; None where the cluster does not answer. Asked once in an update."""
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
