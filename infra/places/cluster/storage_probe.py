"""Checks that pods can use their storage as runs will, as a Pulumi dynamic resource: a short Job tries it.

The Job has the pods' mount, identity and network policy, and runs before anything is installed. It runs once for each
combination of these, and is deleted afterwards. A role is assumed for it, as for a run.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import json
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.places.cluster import run_credentials
from infra.places.cluster.api import kube, short_job
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.run_credentials import ForeignSecretError
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by

NAME = "storage-probe"
SECONDS = 300.0
"""The seconds that the Job may take. An image may have to be pulled, and a volume created."""
_ERROR = "error: "


class UnusableStorageError(UserError):
    """Raised if pods cannot use the storage."""


class StorageProbe(Resource, module="cluster", name="StorageProbe"):
    """The check of a stack's storage by a pod, as a Pulumi resource. `known` are remarks, or an empty text."""

    known: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(StorageProbeProvider(), name, properties | {"known": None}, opts)


class StorageProbeProvider(Provider):
    """Tries the storage when the resource is created; when it is deleted, deletes the credentials for that."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the check is replaced if the storage, its credentials or the image changed."""
        replaced = bool(changed(olds, news, "pod", "role", "namespace"))
        return replaced_by(["pod"] if replaced else [], deleted_first=True)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Try the storage from a pod. Raise UnusableStorageError if pods cannot use it, and ProgramError if the role
        cannot be assumed. A failed try leaves nothing in the cluster."""
        try:
            if props["role"]:
                run_credentials.make(props)
            log = short_job.run(
                kube.connect(props["kubeconfig"]), props["namespace"], NAME, json.loads(props["pod"]), SECONDS
            )
        except (KubeError, ShortJobError, ForeignSecretError) as error:
            with suppress(KubeError):
                self.delete("", props)
            raise UnusableStorageError(_failure(error)) from None
        return CreateResult(props["address"], props | {"known": log.strip()})

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Delete the Secret with a role's temporary credentials. Raise KubeError if that fails."""
        if props["role"]:
            run_credentials.remove(props)


def _failure(error: Exception) -> str:
    """Return the error that the pod printed, or the reason why the pod did not run."""
    log = error.log if isinstance(error, ShortJobError) else ""
    return log[log.rfind(_ERROR) + len(_ERROR) :] if _ERROR in log else f"pods can't try their storage: {error}"
