"""Checks a cluster's storage before anything is created: its claim, its Secret, its server. Changes nothing."""

from collections.abc import Iterator
from typing import Any

import pulumi

from infra.places.cluster import claim, run_credentials
from infra.places.cluster.api import kube
from infra.places.cluster.manifests import network
from infra.settings.problem import Problem, set_line
from infra.settings.rules import KEY, KEY_ID
from infra.settings.settings import Settings
from infra.settings.storage import Storage
from infra.storage import refuse_unusable

ALSO_WHERE_IT_IS = "--dry-run=client --output=yaml | kubectl apply --filename -"
"""The end of a `kubectl create` command line, with which it also works if the Secret exists with other keys."""


def problems(api: Any, settings: Settings) -> list[Problem]:
    """Return what the cluster lacks for storage, each with command lines that fix it. Raise KubeError if that fails."""
    storage, namespace = settings.storage, settings.of_cluster.namespace
    if storage is None:
        return []
    refusals = list(_lacking(api, storage, settings.stack, namespace))
    return refusals + (claim.refusals(api, storage.claim, settings.stack, namespace) if storage.claim else [])


def _lacking(api: Any, storage: Storage, stack: str, namespace: str) -> Iterator[Problem]:
    if storage.secret:
        secret = kube.find(api, f"/api/v1/namespaces/{namespace}/secrets/{storage.secret}")
        missing = [name for name in (KEY_ID, KEY) if name not in (secret or {}).get("data", {})]
        if missing:
            literals = " ".join(f"--from-literal={name}=…" for name in (KEY_ID, KEY))
            yield Problem(
                f"the Secret {storage.secret} in namespace {namespace} has no {' and no '.join(missing)}",
                fixes=(
                    f"kubectl --namespace {namespace} create secret generic {storage.secret} {literals}"
                    f" {ALSO_WHERE_IT_IS}",
                ),
            )
    if storage.role and (whose := run_credentials.of_others(api, stack, namespace)):
        yield Problem(whose, fixes=(set_line("namespace", f"{namespace}-2"),))
    if storage.service_account:
        name = storage.service_account
        if kube.find(api, f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}") is None:
            yield Problem(
                f"there is no ServiceAccount {name} in namespace {namespace}",
                fixes=(
                    f"kubectl --namespace {namespace} create serviceaccount {name}",
                    set_line("serviceAccount", "…"),
                ),
            )


def ask_from_here(settings: Settings) -> None:
    """Raise RunError if the storage's server is not known here, or the storage cannot be used with the pods'
    credentials, where this machine has them and reaches it.

    A preview does not contact the storage, and only warns if the server's name cannot be resolved.
    """
    storage = settings.storage
    if storage is None:
        return
    try:
        network.storage_server(storage)
    except OSError as error:
        problem = f"the server of storageEndpoint = {storage.endpoint} is not known here ({error})"
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"nothing was changed: {problem}\n  {set_line('storageEndpoint', '…')}") from None
        pulumi.log.warn(f"{problem}, and `up` would be refused")
        return
    known_here = bool(storage.credentials or storage.role) and not network.is_in_cluster(storage)
    if known_here and not pulumi.runtime.is_dry_run():
        refuse_unusable(settings)
