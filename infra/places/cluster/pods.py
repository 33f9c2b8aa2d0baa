"""What a stack's settings make of its pods: image, place, sizes, and all that Kubernetes is told of a run. Pure.

`measurement` declares these, and `infra.plan` puts them into the hashes of the runs: what changes a pod of any arm is
so another measurement, whichever setting, file or line of this program it comes from.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.image import spec as image_spec
from infra.image.spec import Content
from infra.places.cluster import jobs_spec, ray_cluster_spec
from infra.places.cluster.jobs_spec import JobSettings
from infra.places.cluster.pod_spec import Manifest, Placement, Size
from infra.places.cluster.ray_cluster_spec import RayClusterSettings
from training.contract.workload import named

if TYPE_CHECKING:
    from infra.plan import RunPlan
    from infra.settings.settings import ClusterSettings, Settings


@dataclass(frozen=True)
class Pods:
    """What the pods of a stack are made of."""

    namespace: str
    kuberay_version: str
    placement: Placement
    ray_cluster: RayClusterSettings
    jobs: JobSettings

    def of_run(self, plan: "RunPlan") -> Manifest:
        """All that Kubernetes is told of a run, but for the Job's deadline: that ends a run, and changes none."""
        job = jobs_spec.job(plan, self.jobs)
        job.pop("activeDeadlineSeconds", None)
        of_arm = {"namespace": self.namespace, "job": job, "service": jobs_spec.service(plan)}
        if plan.arm != "ray":
            return of_arm
        return of_arm | {"kuberay": self.kuberay_version, "rayCluster": ray_cluster_spec.spec(self.ray_cluster)}


def pods_of(settings: "Settings", cluster: "ClusterSettings") -> Pods:
    """The pods that the settings of a cluster's stack make; reads what the image is built from."""
    versions = image_spec.expected_versions()
    place = Placement(
        image=_image(settings, cluster),
        pull_secrets=cluster.image_pull_secrets,
        node_selector=cluster.node_selector,
        tolerations=cluster.tolerations,
    )
    worker, environment = Size(settings.recipe.worker_cpus, cluster.worker_memory.text), jobs_spec.environment(versions)
    return Pods(
        namespace=cluster.namespace,
        kuberay_version=cluster.kuberay_version,
        placement=place,
        ray_cluster=RayClusterSettings(
            workers=settings.recipe.workers,
            head=Size(cluster.head_cpus, cluster.head_memory.text),
            worker=worker,
            ray_version=versions["ray"],
            placement=place,
            environment=environment,
        ),
        jobs=JobSettings(
            worker=worker,
            wide=Size(
                worker.cpus * settings.recipe.workers, str(settings.recipe.workers * cluster.worker_memory.bytes)
            ),
            placement=place,
            timeout_minutes=settings.run_timeout_minutes,
            dataset_flags=tuple(image_content(settings, cluster).dataset_flag()),
            environment=environment,
        ),
    )


def image_content(settings: "Settings", cluster: "ClusterSettings") -> Content:
    """What goes into the training image."""
    workload = named(settings.recipe.workload)
    return Content(workload.name, cluster.base_image, workload.data(settings.recipe), settings.dataset_path)


def _image(settings: "Settings", cluster: "ClusterSettings") -> str:
    """The name of the training image: the user's, or that of the one which is built here."""
    repository = cluster.image_registry or image_spec.NAME
    return cluster.image or f"{repository}:{image_content(settings, cluster).tag()}"


def machines(settings: "Settings", cluster: "ClusterSettings") -> Manifest:
    """What is known of the nodes before there are any: those of a Minikube cluster are as the settings want them."""
    if settings.target != "minikube":
        return {}
    return {
        "nodes": cluster.minikube_nodes,
        "cpus": cluster.minikube_cpus,
        "memory": cluster.minikube_memory.bytes,
        "kubernetes": cluster.kubernetes_version,
        "cni": cluster.minikube_cni,
    }
