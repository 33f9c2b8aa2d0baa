"""The keys of the targets with a cluster, one definition each. The other keys: `infra.settings.sections`."""

from dataclasses import dataclass, field

from infra.settings import rules
from infra.settings.key import CLUSTER, KUBERNETES, MINIKUBE, OF_BUCKETS, OF_CLAIMS, OF_S3, setting
from infra.settings.rules import Destination, PodTemplate, Quantity, Supplies
from training.contract.rules import boolean, choice, number, text, whole


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """What only a cluster has: its pods, their storage, Minikube's nodes, KubeRay, images, and where it is."""

    head_cpus: float = setting(
        "1", number(0, 256, above=True), "CPUs of the Ray head, which runs no training", targets=CLUSTER
    )
    head_memory: Quantity = setting("2Gi", rules.quantity("1Gi"), "memory of the Ray head", targets=CLUSTER)
    shared_memory: Quantity | None = setting(
        "",
        rules.quantity("1Mi"),
        "size of a pod's /dev/shm, which PyTorch's DataLoader workers need; it is part of the pod's memory",
        derived="what the container runtime gives, mostly 64Mi",
        example="1Gi",
        targets=CLUSTER,
    )
    scratch: Quantity | None = setting(
        "",
        rules.quantity("1Mi"),
        "disk that a pod may use in /tmp, its HOME, and as much again in {storage}; if it uses more, it is ended",
        derived="as much as the node has",
        example="10Gi",
        targets=CLUSTER,
    )
    egress: tuple[Destination, ...] = setting(
        "",
        rules.listed(rules.destination()),
        "what pods may reach outside of the cluster, for scripts that download",
        derived="none",
        example="203.0.113.0/24:443",
        unset=(),
        targets=CLUSTER,
    )
    storage_class: str | None = setting(
        "",
        rules.label(253),
        "StorageClass of storage pvc",
        derived="the cluster's default",
        example="nfs-client",
        targets=CLUSTER,
        with_storage=OF_CLAIMS,
    )
    storage_size: Quantity = setting(
        "10Gi",
        rules.quantity("1Mi"),
        "size of storage pvc; it can grow if the class allows it, but never shrink",
        targets=CLUSTER,
        with_storage=OF_CLAIMS,
    )
    storage_secret: str | None = setting(
        "",
        rules.label(253),
        "Secret of the namespace with the credentials for storage s3://, under the names AWS_ACCESS_KEY_ID, …",
        derived="none",
        example="storage-keys",
        targets=KUBERNETES,
        with_storage=OF_S3,
    )
    service_account: str | None = setting(
        "",
        rules.label(253),
        "ServiceAccount of the namespace; its cloud identity may use the storage",
        derived="none",
        example="training",
        targets=KUBERNETES,
        with_storage=OF_BUCKETS,
    )
    minikube_profile: str = setting(
        "",
        rules.label(58),
        "name of the Minikube cluster",
        derived="project-stack",
        example="ray-worth-it-minikube",
        unset="",
        targets=MINIKUBE,
    )
    minikube_nodes: int = setting("2", whole(1, 20), "nodes of the Minikube cluster", targets=MINIKUBE)
    minikube_cpus: int = setting("4", whole(2, 256), "CPUs of each Minikube node", targets=MINIKUBE)
    minikube_memory: Quantity = setting("6Gi", rules.quantity("2Gi"), "memory of each Minikube node", targets=MINIKUBE)
    operator: str = setting(
        "install",
        choice(["install", "existing"]),
        "install KubeRay, or use the one that the cluster has",
        targets=CLUSTER,
    )
    kuberay_version: str = setting(
        "1.6.2",
        rules.matching(r"\d+\.\d+\.\d+", "a version such as 1.6.2"),
        "version of KubeRay, its chart and its CRDs",
        targets=CLUSTER,
    )
    offline_folder: str | None = setting(
        "",
        text("a path to a folder, as docs/offline.md describes it"),
        "folder with what is downloaded otherwise: KubeRay's chart, the base image, Minikube's images and network",
        name="offline",
        derived="none",
        example="docs/samples/offline",
        targets=CLUSTER,
    )
    offline: Supplies = field(default_factory=Supplies)
    """Where the parts of a cluster come from: downloads, or that folder."""
    image: str | None = setting(
        "",
        rules.image(),
        "image in a registry, used as it is: one built from this project, or, with workload script, any with Ray",
        derived="built",
        example="registry.example.com/ray-worth-it:1.0.0",
        targets=KUBERNETES,
    )
    image_registry: str | None = setting(
        "",
        rules.repository(),
        "where the training image is pushed after it is built; instead of image",
        derived="none",
        example="registry.example.com/ray-worth-it",
        targets=KUBERNETES,
    )
    namespace: str = setting(
        "ray-system", rules.label(), "namespace of everything that the stack creates", targets=CLUSTER
    )
    create_namespace: bool = setting(
        "true",
        boolean(),
        "create the namespace; false: it exists, and the stack changes neither it nor other pods in it",
        targets=CLUSTER,
    )
    kubeconfig: str | None = setting(
        "",
        text("a path to a kubeconfig file"),
        "kubeconfig file of the cluster",
        derived="KUBECONFIG, or ~/.kube/config",
        example="~/.kube/config",
        targets=KUBERNETES,
    )
    kube_context: str | None = setting(
        "",
        text("the name of a context"),
        "context in the kubeconfig; you have to name one",
        derived="none",
        example="staging",
        targets=KUBERNETES,
    )
    template_file: str | None = setting(
        "",
        text("a path to a YAML file"),
        "part of a PodTemplateSpec for all pods: labels, annotations, nodes, tolerations, pull secrets, priority",
        name="podTemplate",
        derived="none",
        example="docs/samples/pods.yaml",
        targets=CLUSTER,
    )
    pod_template: PodTemplate = field(default_factory=PodTemplate)
    """What that file holds."""
