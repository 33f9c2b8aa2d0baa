"""Whether pods can use their storage as runs will, as a Pulumi dynamic resource: a short Job tries it.

From where pods are: with their mount, identity and network policy, before anything is installed. Tried once for each of
these; the Job goes when it has answered. A role is assumed for it, as for a run.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import json
import sys
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider

from infra.places.cluster import kube, run_credentials, short_job
from infra.places.cluster.kube import KubeError
from infra.places.cluster.run_credentials import ForeignSecretError
from infra.places.cluster.short_job import ShortJobError

NAME = "storage-probe"
SECONDS = 300.0
"""An image may have to be pulled, and a volume made."""
_ERROR = "error: "


class UnusableStorageError(Exception):
    """Storage that pods can't use."""


class StorageProbe(Resource, module="cluster", name="StorageProbe"):
    """What is to be known of storage that pods can use; empty for nothing."""

    known: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(StorageProbeProvider(), name, properties | {"known": None}, opts)


class StorageProbeProvider(ResourceProvider):
    """Tries storage when it is created; takes along what it was let in with."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Other storage, pods that are let in otherwise, another image."""
        changed = any(olds.get(key) != news.get(key) for key in ("pod", "role", "namespace"))
        return DiffResult(changes=changed, replaces=["pod"] if changed else [], delete_before_replace=True)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Try the storage. Raises UnusableStorageError; ProgramError if the role can't be assumed. Leaves nothing."""
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
        """The Secret with a role's credentials, which have ended or soon will. Raises KubeError."""
        if props["role"]:
            run_credentials.remove(props)


def _failure(error: Exception) -> str:
    """What the pod itself found out, or what kept it from that."""
    log = error.log if isinstance(error, ShortJobError) else ""
    return log[log.rfind(_ERROR) + len(_ERROR) :] if _ERROR in log else f"pods can't try their storage: {error}"
