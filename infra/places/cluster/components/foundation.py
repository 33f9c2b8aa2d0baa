"""The components of a cluster before the runs: namespace, operator, RayCluster, dashboard, in this order.

Their declarations come from the builders in `infra.places.cluster.manifests`; their order is that of
`infra.places.cluster.components.measurement`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster.chart import crds_digest
from infra.places.cluster.components.access import Access, uid
from infra.places.cluster.crds import Crds
from infra.places.cluster.manifests import dashboard, network, operator, queue, ray_cluster, script_files
from infra.places.cluster.manifests.network import NetworkSettings, Servers
from infra.places.cluster.manifests.operator import OperatorSettings
from infra.places.cluster.manifests.pod_parts import SERVICE_ACCOUNT
from infra.places.cluster.manifests.project_modules import Modules
from infra.places.cluster.manifests.ray_cluster import RayClusterSettings
from infra.places.cluster.manifests.script_files import Secret
from infra.places.cluster.ray_ready import RayReady
from infra.settings.rules import CHART, CHART_REPOSITORY
from training.contract.workload import Files

NETWORK = "network"
"""The component label of the namespace, and of the objects that every pod in it needs."""


class TrainingNamespace(pulumi.ComponentResource):
    """The namespace, which may exist already, with its network policies and the service account of its pods."""

    name: pulumi.Input[str]
    """The name of the namespace. If this component creates the namespace, the name is an output, so that Pulumi deletes
    the resources that use it before the namespace."""
    ready: list[pulumi.Resource]
    """The resources that must exist before any pod. A pod without its service account is refused, and a pod older than
    a network policy can keep connections which that policy forbids."""

    def __init__(
        self,
        name: str,
        settings: NetworkSettings,
        access: Access,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:TrainingNamespace", name, {}, opts)
        namespaces = [self._namespace(name, access)] if settings.create_namespace else []
        self.name = namespaces[0].metadata.name if namespaces else access.namespace
        policies: dict[str, Any] = network.policies(settings)
        self.ready = [
            k8s.networking.v1.NetworkPolicy(
                policy,
                metadata=access.metadata(NETWORK, name=network.object_name(policy)),
                spec=_known(policy, spec, settings, access),
                opts=access.options(self, depends_on=namespaces),
            )
            for policy, spec in policies.items()
        ]
        self.ready.append(
            k8s.core.v1.ServiceAccount(
                "pods",
                metadata=access.metadata(NETWORK, name=SERVICE_ACCOUNT),
                automount_service_account_token=False,
                opts=access.options(self, depends_on=namespaces),
            )
        )
        self.register_outputs({"policies": list(policies)})

    def _namespace(self, name: str, access: Access) -> k8s.core.v1.Namespace:
        wanted = network.namespace(access.namespace)["metadata"]
        metadata: Any = {key: value for key, value in access.metadata(NETWORK, **wanted).items() if key != "namespace"}
        return k8s.core.v1.Namespace(f"{name}-namespace", metadata=metadata, opts=access.options(self))


def _known(policy: str, spec: Any, settings: NetworkSettings, access: Access) -> Any:
    """Return a policy's spec. If the policy depends on the addresses of the cluster's servers, they are filled in when
    they are known."""
    if access.servers is None or policy not in network.OF_SERVERS:
        return spec

    def egress(servers: str | None) -> Any:
        return network.policies(replace(settings, servers=Servers.from_json(servers)))[policy]["egress"]

    return {**spec, "egress": access.servers.apply(egress)}


class Operator(pulumi.ComponentResource):
    """KubeRay's CRDs, then the Helm release of its operator. Not created if a platform team runs the operator."""

    release: k8s.helm.v3.Release
    """The Helm release. KubeRay acts on RayClusters only after the release is ready."""

    def __init__(
        self,
        name: str,
        settings: OperatorSettings,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Operator", name, {}, opts)
        crds = Crds(
            f"{name}-crds",
            {
                "digest": crds_digest(settings.chart.crds()),
                "chart": settings.source.path or CHART,
                "repository": CHART_REPOSITORY,
                "version": settings.source.version,
                "chartDigest": settings.source.digest,
                "kubeconfig": access.kubeconfig,
                "takeOver": access.traits.owned,
            },
            pulumi.ResourceOptions(parent=self, depends_on=list(after), retain_on_delete=True),
        )
        self.release = k8s.helm.v3.Release(
            f"{name}-release",
            name=operator.RELEASE,
            chart=str(settings.chart.path),
            namespace=settings.namespace,
            values=operator.values(settings.placement, access.namespace),
            skip_crds=True,
            timeout=300,
            # In a cluster of our own: a release that an interrupted `up` left is adopted (`helm_release`).
            replace=True if access.traits.owned else None,
            opts=access.options(self, depends_on=[crds, *after]),
        )
        self.register_outputs({"release": self.release.name})


@dataclass(frozen=True)
class Brought:
    """The files and secret variables that a user's script needs in pods, in addition to the image."""

    files: Files
    secret: Secret | None
    values: Mapping[str, str] = field(repr=False)
    """The values of the secret variables, by the variable's name."""


class ScriptFiles(pulumi.ComponentResource):
    """The objects in the cluster with a script's files and secret variables."""

    ready: list[pulumi.Resource]
    """The resources that must exist before the pods that need them."""

    def __init__(
        self,
        name: str,
        brought: Brought,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:ScriptFiles", name, {}, opts)
        of_files, content = script_files.config_map(brought.files)
        options = access.options(self, depends_on=list(after))
        self.ready = [
            k8s.core.v1.ConfigMap(
                f"{name}-files",
                metadata=access.metadata("script", name=of_files),
                immutable=content["immutable"],
                binary_data=content["binaryData"],
                opts=options,
            )
        ]
        if brought.secret:
            metadata = access.metadata("script", name=brought.secret.name)
            data = pulumi.Output.secret(dict(brought.values))
            self.ready.append(
                k8s.core.v1.Secret(f"{name}-secret", metadata=metadata, immutable=True, string_data=data, opts=options)
            )
        self.register_outputs({"files": of_files})


class ProjectModules(pulumi.ComponentResource):
    """The object in the cluster with the project's modules, for pods whose image lacks them."""

    ready: list[pulumi.Resource]
    """The resources that must exist before the pods that need them."""

    def __init__(
        self,
        name: str,
        modules: Modules,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:ProjectModules", name, {}, opts)
        content = modules.config_map()
        self.ready = [
            k8s.core.v1.ConfigMap(
                f"{name}-packed",
                metadata=access.metadata("modules", name=modules.name),
                immutable=content["immutable"],
                binary_data=content["binaryData"],
                opts=access.options(self, depends_on=list(after)),
            )
        ]
        self.register_outputs({"modules": modules.name})


class RayTrainingCluster(pulumi.ComponentResource):
    """A RayCluster. Changes that KubeRay does not apply to running pods replace it; in a queue, every change does."""

    ready: RayReady
    """The resource that exists once the head and all permanent workers are ready."""

    def __init__(
        self,
        name: str,
        settings: RayClusterSettings,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:RayTrainingCluster", name, {}, opts)
        spec = ray_cluster.spec(settings)
        if settings.queue:
            spec = queue.canonical(spec)
        cluster = k8s.apiextensions.CustomResource(
            ray_cluster.NAME,
            api_version=ray_cluster.API_VERSION,
            kind=ray_cluster.KIND,
            metadata=access.metadata(
                "ray-cluster",
                ray_cluster.annotations(settings),
                name=ray_cluster.NAME,
                labels=settings.queue.labels if settings.queue else {},
            ),
            spec=spec,
            opts=access.options(
                self,
                depends_on=list(after),
                # KubeRay keeps the pods that run when their template changes, and reports them ready.
                replace_on_changes=list(
                    queue.REPLACE_ON if settings.queue else (*ray_cluster.replace_on(settings), queue.QUEUE_PATH)
                ),
            ),
        )
        properties = {
            "uid": cluster.metadata.apply(uid),  # type: ignore[attr-defined]  # each input is an output, too
            "workers": 0 if settings.per_run else settings.workers,
            "seconds": settings.await_seconds,
            "namespace": access.namespace,
            "kubeconfig": access.kubeconfig,
        }
        options = pulumi.ResourceOptions(parent=self, depends_on=[cluster], retain_on_delete=True)
        self.ready = RayReady(properties, options)
        self.register_outputs({"ready": self.ready.id})


class Dashboard(pulumi.ComponentResource):
    """A Service in front of the head's dashboard, for a node port or, where there is none, for port forwarding."""

    url: pulumi.Output[str]
    token_command: str

    def __init__(
        self,
        name: str,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Dashboard", name, {}, opts)
        spec: Any = dashboard.service(at_nodes=access.address is not None)
        k8s.core.v1.Service(
            dashboard.NAME,
            metadata=access.metadata("dashboard", name=dashboard.NAME),
            spec=spec,
            opts=access.options(self, depends_on=list(after)),
        )
        if access.address is None:
            self.url = pulumi.Output.from_input(dashboard.FORWARDED_URL)
        else:
            self.url = access.address.apply(dashboard.node_port_url)
        self.token_command = dashboard.in_project(dashboard.token_command(access.kubeconfig, access.namespace))
        self.register_outputs({"url": self.url, "token_command": self.token_command})
