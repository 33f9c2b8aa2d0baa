"""The RayCluster as a resource that is there when its head and all its workers are."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import ray_cluster_spec
from infra.places.cluster.access import Access
from infra.places.cluster.ray_cluster_spec import RayClusterSettings


class RayTrainingCluster(pulumi.ComponentResource):
    """A RayCluster: its number of workers changes in place, everything else makes another."""

    cluster: k8s.apiextensions.CustomResource

    def __init__(
        self,
        name: str,
        settings: RayClusterSettings,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:RayTrainingCluster", name, {}, opts)
        self.cluster = k8s.apiextensions.CustomResource(
            ray_cluster_spec.NAME,
            api_version=ray_cluster_spec.API_VERSION,
            kind=ray_cluster_spec.KIND,
            metadata=access.metadata(ray_cluster_spec.annotations(settings.workers), name=ray_cluster_spec.NAME),
            spec=ray_cluster_spec.spec(settings),
            opts=access.options(
                self,
                depends_on=list(after),
                # KubeRay keeps the pods that run when their template changes, and reports them ready.
                replace_on_changes=list(ray_cluster_spec.REPLACE_ON),
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
            ),
        )
        self.register_outputs({"cluster": self.cluster.id})
