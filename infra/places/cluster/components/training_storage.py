"""The storage resources in a cluster: a claim, credentials, and a pod that checks the storage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import claim, storage_probe
from infra.places.cluster.claim import TrainingClaim
from infra.places.cluster.components.access import Access
from infra.places.cluster.manifests import storage_access
from infra.places.cluster.manifests.pod_parts import Placement
from infra.places.cluster.manifests.storage_access import FILE, SECRET, InPods
from infra.places.cluster.run_credentials import RunCredentials
from infra.places.cluster.storage_probe import StorageProbe
from infra.plan import RunPlan
from infra.settings.storage import Storage
from infra.storage import way_of
from training.contract.recipe import canonical


@dataclass(frozen=True)
class WantedStorage:
    """The storage that the runs of a stack use, and how their pods reach it."""

    stack: str
    storage: Storage
    in_pods: InPods
    placement: Placement
    timeout_minutes: int
    data: str
    """The address of the runs' data in storage; empty if the data is not in storage."""


class TrainingStorage(pulumi.ComponentResource):
    """The stack's storage, checked by a pod that has the identity, the network policy and the mount of a run's pod."""

    ready: list[pulumi.Resource]
    """The resources that must exist before a run can use the storage."""

    def __init__(
        self,
        name: str,
        wanted: WantedStorage,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:TrainingStorage", name, {}, opts)
        self._wanted, self._access = wanted, access
        resources = [*self._claim(after), *self._credentials(after)]
        self.ready = [*resources, self._probe([*after, *resources])]
        self.register_outputs({"address": wanted.storage.address})

    def _claim(self, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        wanted, access = self._wanted.storage.claim, self._access
        if wanted is None:
            return []
        properties = claim.properties(wanted, self._wanted.stack, access.namespace, access.kubeconfig)
        # What runs kept outlives the stack; a cluster that is the stack's own takes it along
        options = pulumi.ResourceOptions(
            parent=self, depends_on=list(after), retain_on_delete=True, deleted_with=access.cluster
        )
        return [TrainingClaim("claim", properties, options)]

    def _credentials(self, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        credentials = self._wanted.storage.credentials
        if not credentials:
            return []
        data = pulumi.Output.secret({FILE: storage_access.credentials_file(credentials)})
        metadata = self._access.metadata("storage", name=SECRET)
        options = self._access.options(self, depends_on=list(after))
        return [k8s.core.v1.Secret(SECRET, metadata=metadata, string_data=data, opts=options)]

    def _probe(self, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
        wanted = self._wanted
        way, address = way_of(wanted.storage), f"{wanted.storage.address}/{wanted.stack}"
        pod = storage_access.probe(address, way, wanted.placement, wanted.in_pods, wanted.data)
        properties = {
            **of_role(storage_probe.NAME, wanted, self._access),
            "address": address,
            "pod": canonical(pod),
        }
        options = pulumi.ResourceOptions(
            parent=self,
            depends_on=list(after),
            deleted_with=self._access.cluster,
            retain_on_delete=not wanted.storage.role,  # then there is nothing to delete
        )
        return StorageProbe(storage_probe.NAME, properties, options)


def of_role(name: str, wanted: WantedStorage, access: Access) -> dict[str, Any]:
    """Return the properties of a resource that may have to assume the storage's role."""
    return {
        "name": name,
        "stack": wanted.stack,
        "role": wanted.storage.role or "",
        "timeoutMinutes": wanted.timeout_minutes,
        "namespace": access.namespace,
        "kubeconfig": access.kubeconfig,
    }


def run_credentials(
    plan: RunPlan, identity: str, wanted: WantedStorage, access: Access, options: pulumi.ResourceOptions
) -> RunCredentials:
    """Return the resource with a run's credentials, which is replaced when the run's identity changes."""
    return RunCredentials(f"{plan.name}-credentials", {**of_role(plan.name, wanted, access), "run": identity}, options)
