"""The pods of a stack, derived from its settings: image, placement, sizes, and everything Kubernetes gets of a run.

`measurement` declares these, and `infra.plan` puts them into the hashes of the runs: so whatever changes a pod of any
arm is another measurement, whichever setting, file or line of this program it comes from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from infra.image import spec as image_spec
from infra.image.spec import Content
from infra.places.cluster.manifests import gpus, jobs, project_modules, ray_cluster
from infra.places.cluster.manifests.jobs import JobSettings
from infra.places.cluster.manifests.monitoring import Monitoring
from infra.places.cluster.manifests.pod_parts import LOG_MIB, Manifest, Placement, Size
from infra.places.cluster.manifests.project_modules import Modules
from infra.places.cluster.manifests.queue import Queue
from infra.places.cluster.manifests.ray_cluster import RayClusterSettings
from infra.places.cluster.manifests.script_files import Secret
from infra.places.cluster.manifests.storage_access import InPods, in_pods
from infra.plan import RunPlan
from infra.settings.cluster import AUTOSCALED, KEPT, NONE, ClusterSettings
from infra.settings.rules import Destination
from infra.settings.settings import Settings
from training.contract.arms import ARMS
from training.contract.workload import named


@dataclass(frozen=True)
class Pods:
    """Everything that Kubernetes gets for a stack's pods."""

    content: Content
    """The contents of the training image, if the image is built here."""
    namespace: str
    kuberay_version: str
    placement: Placement
    ray_cluster: RayClusterSettings
    jobs: JobSettings
    egress: tuple[Destination, ...]
    """Destinations outside of the cluster that the pods may call."""
    modules: Modules | None
    """The project's modules, if the image lacks them."""
    asked_of_image: Mapping[str, Any]
    """The requirements that a prebuilt image has to meet."""
    secret: Secret | None
    """The names of the secret variables; None if the script has no secret variables."""
    storage: InPods | None
    """The pods' access to the storage; None if no storage outlives the pods."""
    monitoring: Monitoring | None
    """How the metrics of Ray's pods are read; None if nothing reads them."""

    def of_run(self, plan: RunPlan) -> Manifest:
        """Return everything that Kubernetes gets for a run, except the Job's deadline, which can end a run but does not
        change what it measures."""
        job = jobs.job(plan, self.jobs)
        job.pop("activeDeadlineSeconds", None)
        of_arm: Manifest = {"namespace": self.namespace, "job": job, "service": jobs.service(plan)}
        if self.egress:
            of_arm["egress"] = [f"{target.cidr}:{target.port}" for target in self.egress]
        if ARMS[plan.arm].start != "ray":
            return of_arm
        of_ray: Manifest = {"kuberay": self.kuberay_version, "rayCluster": ray_cluster.spec(self.ray_cluster)}
        if self.monitoring:
            of_ray["monitoring"] = self.monitoring.hashed
        return of_arm | of_ray


def pods_of(settings: Settings) -> Pods:
    """Return the pods that a stack's settings describe. Reads the files from which the image is built."""
    cluster, recipe, workload = settings.of_cluster, settings.recipe, named(settings.recipe.workload)
    versions = image_spec.expected_versions(workload=workload.name)
    files = workload.files(recipe)
    modules = project_modules.of_workload(workload.name) if cluster.image and files else None
    in_image = (workload.data(recipe), settings.dataset_path) if not settings.data_in_storage else ("", None)
    content = Content(workload.name, cluster.offline.base_image, *in_image, settings.requirements)
    placement = Placement(
        image=_image(cluster, content),
        shared_memory=cluster.shared_memory.text if cluster.shared_memory else None,
        scratch=cluster.scratch.text if cluster.scratch else None,
        template=cluster.pod_template,
        modules=modules.name if modules else None,
        spread=cluster.spread_workers,
        disk_mib=_disk_mib(cluster),
        stack=settings.stack,
    )
    if recipe.worker_gpus:
        others = gpus.kept_off(placement.template, cluster.gpu_node_selector)
        placement = replace(placement, template=others, gpus=gpus.of_workers(recipe.worker_gpus, cluster))
    secret = Secret(tuple(sorted(settings.secret_environment)), settings.secret_digest or "")
    secret_or_none = secret if secret.names else None
    environment = jobs.environment({} if modules else versions, secret_or_none)
    worker = Size(recipe.worker_cpus, settings.run.worker_memory.text)
    storage = in_pods(settings.storage) if settings.storage else None
    queue = Queue(cluster.queue, cluster.queue_minutes) if cluster.queue else None
    return Pods(
        content=content,
        namespace=cluster.namespace,
        kuberay_version=cluster.kuberay_version,
        placement=placement,
        ray_cluster=RayClusterSettings(
            workers=recipe.workers,
            head=Size(cluster.head_cpus, cluster.head_memory.text),
            worker=worker,
            ray_version=modules.ray_version if modules else versions["ray"],
            placement=placement,
            environment=environment,
            storage=storage,
            per_run=cluster.ray_workers != KEPT,
            idle_seconds=cluster.idle_seconds if cluster.ray_workers == AUTOSCALED else None,
            queue=queue,
        ),
        jobs=JobSettings(
            stack=settings.stack,
            worker=worker,
            wide=Size(worker.cpus * recipe.workers, str(recipe.workers * settings.run.worker_memory.bytes)),
            placement=placement,
            timeout_minutes=settings.run.run_timeout_minutes,
            dataset_flags=_dataset_flags(settings, content),
            environment=environment,
            files=files,
            storage=storage,
            queue=queue,
        ),
        egress=cluster.egress,
        modules=modules,
        asked_of_image=modules.asked_of_image(recipe) if modules else _needs_of_image(versions, recipe.workload),
        secret=secret_or_none,
        storage=storage,
        monitoring=_monitoring(settings, placement),
    )


def _disk_mib(cluster: ClusterSettings) -> int | None:
    """Return the MiB of disk that a pod requests: space for its log, and for both writable folders if their size is
    limited. Return None in a queue."""
    if cluster.queue:
        return None
    return LOG_MIB + (2 * cluster.scratch.bytes // 2**20 if cluster.scratch else 0)


def _monitoring(settings: Settings, placement: Placement) -> Monitoring | None:
    cluster = settings.of_cluster
    if cluster.monitoring == NONE:
        return None
    return Monitoring(
        way=cluster.monitoring,
        image=cluster.prometheus_image,
        placement=placement,
        namespace=cluster.monitoring_namespace,
        arms=settings.arms,
        labels=tuple(sorted(cluster.pod_monitor_labels.items())),
    )


def _dataset_flags(settings: Settings, content: Content) -> tuple[str, ...]:
    """Return the flags by which a run finds its data: in storage, or in the image."""
    return (f"--dataset-path={settings.dataset_path}",) if settings.data_in_storage else tuple(content.dataset_flag())


def _needs_of_image(versions: Mapping[str, str], workload: str) -> Mapping[str, Any]:
    """Return the requirements for an image that was built from this project for one workload. It lacks the modules of
    other workloads, and the modules that pods start have the names of this version of the project."""
    modules = (*image_spec.ENTRIES, f"training.workloads.{workload}.workload")
    return {"least": {}, "exact": versions, "modules": dict.fromkeys(modules, "")}


def _image(cluster: ClusterSettings, content: Content) -> str:
    """Return the name of the training image: the user's image, or the image that is built here."""
    return cluster.image or f"{cluster.image_registry or image_spec.NAME}:{content.tag()}"
