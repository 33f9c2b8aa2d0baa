"""What reads the metrics of Ray's pods: a Prometheus of the stack's own, or a PodMonitor for the one that exists."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import ray_dashboards
from infra.places.cluster.components.access import Access
from infra.places.cluster.manifests import monitoring, runs_dashboard
from infra.places.cluster.manifests.monitoring import Monitoring
from infra.places.cluster.ray_dashboards import RayDashboards
from training.contract.recipe import canonical


class RayMonitoring(pulumi.ComponentResource):
    """The resources that read metrics: a Prometheus with the Services by which it finds pods, or a PodMonitor.
    Dashboards for Grafana belong to both."""

    ready: list[pulumi.Resource]
    """The resources that must exist before a run, so that the metrics of all runs are read in the same way."""

    def __init__(
        self,
        name: str,
        wanted: Monitoring,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Monitoring", name, {}, opts)
        self._wanted, self._access = wanted, access
        options = access.options(self, depends_on=list(after))
        own = wanted.way == monitoring.NAME
        self.ready = [
            *(self._prometheus(options) if own else [self._pod_monitor(options)]),
            self._own_dashboard(options),
            self._ray_dashboards(after),
        ]
        self.register_outputs({"way": wanted.way})

    def _prometheus(self, options: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        services = [
            self._service(name, spec, options)
            for name, spec in {**monitoring.services(self._wanted), monitoring.NAME: monitoring.service()}.items()
        ]
        name, content = monitoring.config_map(self._wanted)
        config = k8s.core.v1.ConfigMap(
            f"{monitoring.NAME}-config",
            metadata=self._access.metadata(monitoring.NAME, name=name),
            immutable=content["immutable"],
            data=content["data"],
            opts=options,
        )
        spec: Any = monitoring.deployment(self._wanted)
        deployment = k8s.apps.v1.Deployment(
            monitoring.NAME,
            metadata=self._access.metadata(monitoring.NAME, name=monitoring.NAME),
            spec=spec,
            opts=self._access.options(
                self,
                depends_on=[*services, config],
                custom_timeouts=pulumi.CustomTimeouts(create="5m", update="5m"),
            ),
        )
        return [*services, config, deployment]

    def _service(self, name: str, spec: Any, options: pulumi.ResourceOptions) -> pulumi.Resource:
        return k8s.core.v1.Service(
            name, metadata=self._access.metadata(monitoring.NAME, name=name), spec=spec, opts=options
        )

    def _pod_monitor(self, options: pulumi.ResourceOptions) -> pulumi.Resource:
        item = monitoring.pod_monitor(self._wanted)
        return k8s.apiextensions.CustomResource(
            "pod-monitor",
            api_version=item["apiVersion"],
            kind=item["kind"],
            metadata=self._access.metadata(monitoring.NAME, **item["metadata"]),
            spec=item["spec"],
            opts=options,
        )

    def _own_dashboard(self, options: pulumi.ResourceOptions) -> pulumi.Resource:
        item = monitoring.dashboard_object("arms", runs_dashboard.dashboard(arms=self._wanted.way == monitoring.NAME))
        return k8s.core.v1.ConfigMap(
            "arms-dashboard",
            metadata=self._access.metadata(monitoring.NAME, **item["metadata"]),
            immutable=item["immutable"],
            data=item["data"],
            opts=options,
        )

    def _ray_dashboards(self, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
        properties = {
            "image": self._wanted.placement.image,
            "pod": canonical(ray_dashboards.pod_of(self._wanted.placement)),
            "namespace": self._access.namespace,
            "kubeconfig": self._access.kubeconfig,
        }
        options = pulumi.ResourceOptions(
            parent=self, depends_on=list(after), deleted_with=self._access.cluster, delete_before_replace=True
        )
        return RayDashboards(ray_dashboards.NAME, properties, options)
