"""The namespace of everything that is made, and its network policies."""

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import network_spec
from infra.places.cluster.access import Access
from infra.places.cluster.network_spec import NetworkSettings


class TrainingNamespace(pulumi.ComponentResource):
    """The namespace, unless it is given, and who may talk to whom in it."""

    ready: list[pulumi.Resource]
    """When these are done, pods may be made: a pod that is older than a policy can hold connections it forbids."""

    def __init__(
        self,
        name: str,
        settings: NetworkSettings,
        access: Access,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:TrainingNamespace", name, {}, opts)
        namespaces = [self._namespace(name, access)] if settings.create_namespace else []
        policies: dict[str, Any] = network_spec.policies(settings)
        self.ready = [
            k8s.networking.v1.NetworkPolicy(
                policy,
                metadata=access.metadata(name=network_spec.object_name(policy)),
                spec=spec,
                opts=access.options(self, depends_on=namespaces),
            )
            for policy, spec in policies.items()
        ]
        self.register_outputs({"policies": list(policies)})

    def _namespace(self, name: str, access: Access) -> pulumi.Resource:
        wanted = network_spec.namespace(access.namespace)["metadata"]
        metadata: Any = {key: value for key, value in access.metadata(**wanted).items() if key != "namespace"}
        return k8s.core.v1.Namespace(f"{name}-namespace", metadata=metadata, opts=access.options(self))
