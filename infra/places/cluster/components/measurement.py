"""A measurement on a cluster: access → image → namespace → operator → RayCluster → dashboard → runs.

Combines the components; each component's module says what it creates, and from what.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

from infra.image.training_image import TrainingImage
from infra.places.cluster import chart, image_check
from infra.places.cluster.chart import Source
from infra.places.cluster.components.access import Access
from infra.places.cluster.components.foundation import (
    Brought,
    Dashboard,
    Operator,
    ProjectModules,
    RayTrainingCluster,
    ScriptFiles,
    TrainingNamespace,
)
from infra.places.cluster.components.monitoring import RayMonitoring
from infra.places.cluster.components.runs import ClusterRuns, WantedRuns
from infra.places.cluster.components.training_storage import TrainingStorage, WantedStorage, run_credentials
from infra.places.cluster.manifests.network import NetworkSettings, storage_server, to_storage
from infra.places.cluster.manifests.operator import OperatorSettings
from infra.places.cluster.manifests.pod_parts import Manifest
from infra.places.cluster.manifests.pods import Pods
from infra.plan import RunPlan
from infra.settings.settings import Settings
from infra.storage import data_of
from training.contract.arms import ARMS
from training.contract.recipe import canonical
from training.contract.workload import named
from training.launch.pod import indexed_job


class ClusterMeasurement(pulumi.ComponentResource):
    """The components of a measurement in a cluster, and its runs. This class only declares resources; the place has
    inspected the cluster before."""

    runs: ClusterRuns
    outputs: dict[str, pulumi.Input[Any]]
    """The stack's outputs other than the comparison, by name."""

    def __init__(
        self, settings: Settings, pods: Pods, plans: Sequence[RunPlan], reach: Callable[[pulumi.Resource], Access]
    ) -> None:
        super().__init__("ray-worth-it:cluster:Measurement", "measurement")
        self._settings, self._pods, self._access = settings, pods, reach(self)
        images, network = self._image(), self._network()
        namespace = network.ready
        image_checked = [*namespace, *self._image_check(namespace)]
        modules_ready = [*image_checked, *self._modules(image_checked)]
        foundation = self._operator(network.name, [*modules_ready, *self._storage([*modules_ready, *images])])
        ray_needs = [*foundation, *images, *self._script_files(namespace)]
        ray_needs += self._monitoring(ray_needs)
        ray = RayTrainingCluster("ray", self._pods.ray_cluster, self._access, ray_needs, self._child())
        dashboard = Dashboard("dashboard", self._access, [ray.ready], self._child())
        wanted = WantedRuns(
            settings.stack,
            plans,
            self._pods.jobs,
            settings.run.keep_baseline,
            self._before_run(),
            per_run=self._pods.ray_cluster.per_run,
            idle_seconds=self._pods.ray_cluster.idle_seconds,
        )
        self.runs = ClusterRuns("runs", wanted, self._access, [ray.ready], self._child())
        if self._access.guard:
            self._access.guard([dashboard, self.runs], self)
        self.outputs = {
            "dashboardUrl": dashboard.url,
            "dashboardTokenCommand": dashboard.token_command,
            "kubeconfigPath": self._access.kubeconfig,
        }
        self.register_outputs({"outputs": self.outputs})

    @property
    def results(self) -> dict[str, pulumi.Output[str]]:
        """Return the summary of each run's result, canonical JSON, by the run's name."""
        return {name: run.result for name, run in self.runs.runs.items()}

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self)

    def _image(self) -> Sequence[pulumi.Resource]:
        """Return the resources that must exist before a pod can start from the image."""
        image = self._pods.placement.image
        if image == self._settings.of_cluster.image:
            return []
        return [TrainingImage("image", image, self._pods.content, self._access.nodes, self._child()).ready]

    def _script_files(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the resources with the user's script files and secret variables."""
        files = self._pods.jobs.files
        if files is None:
            return []
        brought = Brought(files, self._pods.secret, self._settings.secret_environment)
        return ScriptFiles("script", brought, self._access, after, self._child()).ready

    def _image_check(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the resource that checks a prebuilt image, which must succeed before anything uses the image; empty
        for an image that is built here."""
        placement = self._pods.placement
        if placement.image != self._settings.of_cluster.image:
            return []
        properties = {
            "image": placement.image,
            "pod": canonical(image_check.pod_of(placement, self._pods.asked_of_image)),
            "namespace": self._access.namespace,
            "kubeconfig": self._access.kubeconfig,
        }
        options = pulumi.ResourceOptions(parent=self, depends_on=list(after), retain_on_delete=True)
        return [image_check.ImageCheck(image_check.NAME, properties, options)]

    def _modules(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the resources with the project's modules, for pods of a prebuilt image."""
        modules = self._pods.modules
        return ProjectModules("modules", modules, self._access, after, self._child()).ready if modules else []

    def _storage(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the resources that must exist before a run can use its storage."""
        wanted = self._wanted_storage()
        if wanted is None:
            return []
        return TrainingStorage("storage", wanted, self._access, after, self._child()).ready

    def _wanted_storage(self) -> WantedStorage | None:
        storage, pods, minutes = self._settings.storage, self._pods, self._settings.run.run_timeout_minutes
        if storage is None or pods.storage is None:
            return None
        data = data_of(self._settings)
        return WantedStorage(self._settings.stack, storage, pods.storage, pods.placement, minutes, data)

    def _before_run(self) -> Callable[[RunPlan, pulumi.ResourceOptions], pulumi.Resource] | None:
        """Return the function that creates a run's credentials; None if no role is assumed for each run."""
        wanted = self._wanted_storage()
        if wanted is None or not wanted.storage.role:
            return None
        return lambda plan, options: run_credentials(plan, self._identity(plan), wanted, self._access, options)

    def _identity(self, plan: RunPlan) -> str:
        """Return a text that identifies a run: when it changes, the run's credentials are replaced. For a baseline that
        may be kept, it leaves out the hash of the measurement."""
        kept = self._settings.run.keep_baseline and ARMS[plan.arm].role(plan.recipe.workload) == "reference"
        return plan.own_key if kept else f"{plan.own_key} {plan.measurement}"

    def _storage_rules(self) -> Sequence[Manifest]:
        """Return the network policy's rules for the storage server; empty if there is no such server, or if a preview
        cannot resolve the server's name."""
        if self._settings.storage is None:
            return ()
        try:
            server = storage_server(self._settings.storage)
        except OSError:
            return ()
        return to_storage(server) if server else ()

    def _network(self) -> TrainingNamespace:
        """Return the component with the namespace and its network policies, which must exist before any pod."""
        settings, access = self._settings.of_cluster, self._access
        wanted = NetworkSettings(
            create_namespace=settings.create_namespace,
            operator=settings.operator == "install",
            pod_range=access.traits.pod_range,
            native_ports=self._native_ports(),
            egress=settings.egress,
            monitoring=self._pods.monitoring,
            autoscaled=self._pods.ray_cluster.idle_seconds is not None,
            storage=self._storage_rules(),
        )
        return TrainingNamespace("network", wanted, access, self._child())

    def _native_ports(self) -> tuple[int, ...]:
        """Return the ports on which pods of the arm `native` talk to each other; empty for all ports, which the ranks
        of a script may need. In a search, its processes share their study at one port and send records to the next
        port; the trials themselves need no ports."""
        if named(self._settings.recipe.workload).searches:
            return indexed_job.PORT, indexed_job.PORT + 1
        return (indexed_job.PORT,) if self._pods.jobs.files is None else ()

    def _monitoring(self, after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the resources that read the metrics of Ray's pods; empty if nothing reads them."""
        wanted = self._pods.monitoring
        if wanted is None:
            return []
        return RayMonitoring("monitoring", wanted, self._access, after, self._child()).ready

    def _operator(self, namespace: pulumi.Input[str], after: Sequence[pulumi.Resource]) -> Sequence[pulumi.Resource]:
        """Return the given resources and, if the stack installs KubeRay's operator, the operator's release."""
        settings, access = self._settings.of_cluster, self._access
        if settings.operator != "install":
            return after
        source = Source(settings.offline.chart, settings.kuberay_version, settings.offline.chart_digest)
        wanted_operator = OperatorSettings(source, chart.find(source), self._pods.placement, namespace)
        operator = Operator("operator", wanted_operator, access, after, self._child())
        return [*after, operator.release]
