"""The targets `minikube` and `kubernetes`: place → image → namespace → operator → RayCluster → dashboard → runs.

Puts the components together; what each of them makes, and from what, is in its own module.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pulumi

from infra.image.training_image import Nodes, TrainingImage
from infra.places.cluster import access as access_module
from infra.places.cluster import before_up, chart
from infra.places.cluster.access import Access
from infra.places.cluster.chart import Source
from infra.places.cluster.dashboard import Dashboard, NodePort
from infra.places.cluster.network import TrainingNamespace
from infra.places.cluster.network_spec import NetworkSettings
from infra.places.cluster.operator import Operator
from infra.places.cluster.operator_spec import OperatorSettings
from infra.places.cluster.pod_spec import Placement
from infra.places.cluster.pods import image_content, pods_of
from infra.places.cluster.ray_cluster import RayTrainingCluster
from infra.places.cluster.runs import ClusterRuns, WantedRuns
from infra.places.kubernetes import kubeconfig
from infra.places.kubernetes.pinned_cluster import DestroyCheck
from infra.places.minikube.cluster import Minikube
from infra.places.minikube.spec import Cluster
from infra.plan import RunPlan
from infra.settings.settings import ClusterSettings, Settings

MIB = 2**20


class ClusterMeasurement(pulumi.ComponentResource):
    """A measurement on a cluster: the place, what runs there, and the runs."""

    runs: ClusterRuns
    outputs: dict[str, pulumi.Input[Any]]
    """The stack's outputs beside the comparison, by name."""

    def __init__(
        self, name: str, settings: Settings, plans: Iterable[RunPlan], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ray-worth-it:cluster:Measurement", name, {}, opts)
        assert settings.cluster is not None  # noqa: S101 (every target but `local` has it)
        self._settings, self._cluster = settings, settings.cluster
        place = self._place()
        access = self._access(place)
        made_of = pods_of(settings, settings.cluster)
        images = self._image(place, made_of.placement.image)
        before = [*self._foundation(access, made_of.placement), *images]
        ray = RayTrainingCluster("ray", made_of.ray_cluster, access, before, self._child())
        dashboard = self._dashboard(access, place, ray)
        wanted = WantedRuns(settings.stack, tuple(plans), made_of.jobs, settings.keep_baseline)
        self.runs = ClusterRuns("runs", wanted, access, [ray.cluster], self._child())
        if access.pinned is not None:
            DestroyCheck(access.pinned, [dashboard, self.runs], self)
        self.outputs = {
            "dashboardUrl": dashboard.url,
            "dashboardTokenCommand": dashboard.token_command,
            "kubeconfigPath": access.kubeconfig,
        }
        self.register_outputs({"outputs": self.outputs})

    @property
    def results(self) -> dict[str, pulumi.Output[str]]:
        """The summary of each run's result, canonical JSON, by the run's name."""
        return {name: run.result for name, run in self.runs.runs.items()}

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self)

    def _place(self) -> Minikube | None:
        if self._settings.target != "minikube":
            before_up.check_existing(self._settings)
            return None
        before_up.check_minikube(self._settings)
        return Minikube("minikube", minikube_cluster(self._settings.stack, self._cluster), self._child())

    def _access(self, place: Minikube | None) -> Access:
        stack, settings = self._settings.stack, self._cluster
        if place is not None:
            return access_module.minikube_access(stack, settings.namespace, place.started, self)
        assert settings.kube_context is not None  # noqa: S101 (refused without it)
        return access_module.existing_access(
            stack, settings.namespace, settings.kubeconfig, settings.kube_context, self
        )

    def _image(self, place: Minikube | None, image: str) -> Sequence[pulumi.Resource]:
        """What must be done before a pod can start from the image."""
        settings = self._cluster
        if image == settings.image:
            return []
        if place is not None:
            before_up.bring_back_images(settings.minikube_profile, [image, *settings.preload_images])
        nodes = Nodes(settings.minikube_profile, settings.minikube_nodes, place.started) if place else None
        return [TrainingImage("image", image, image_content(self._settings, settings), nodes, self._child()).ready]

    def _foundation(self, access: Access, placement: Placement) -> Sequence[pulumi.Resource]:
        """The namespace and the operator: what must be there before a RayCluster is."""
        settings, install = self._cluster, self._cluster.operator == "install"
        wanted = NetworkSettings(
            create_namespace=settings.create_namespace, operator=install, node_port=access.cluster is not None
        )
        namespace = TrainingNamespace("network", wanted, access, self._child())
        if not install:
            return namespace.ready
        digest = settings.kuberay_chart_digest or ""
        source = Source(settings.kuberay_chart, settings.kuberay_repository, settings.kuberay_version, digest)
        wanted_operator = OperatorSettings(source, chart.find(source), placement)
        operator = Operator("operator", wanted_operator, access, namespace.ready, self._child())
        return [*namespace.ready, operator.release]

    def _dashboard(self, access: Access, place: Minikube | None, ray: RayTrainingCluster) -> Dashboard:
        node_port = NodePort(place.address, self._cluster.dashboard_node_port) if place else None
        return Dashboard("dashboard", access, node_port, [ray.cluster], self._child())


def minikube_cluster(stack: str, settings: ClusterSettings) -> Cluster:
    """The Minikube cluster that the settings want."""
    return Cluster(
        stack=stack,
        profile=settings.minikube_profile,
        kubeconfig=kubeconfig.path_of(stack),
        nodes=settings.minikube_nodes,
        cpus=settings.minikube_cpus,
        memory_mib=settings.minikube_memory.bytes // MIB,
        version=settings.kubernetes_version,
        cni=settings.minikube_cni,
        addons=settings.minikube_addons,
        images=settings.preload_images,
    )
