"""The keys of the targets with a cluster, one definition each. The other keys: `infra.settings.sections`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.settings import rules
from infra.settings.key import CLUSTER, KUBERNETES, MINIKUBE, OF_BUCKETS, OF_CLAIMS, OF_S3, setting
from infra.settings.rules import Destination, PodTemplate, Quantity, Supplies
from training.contract.rules import boolean, choice, number, text, whole

PROMETHEUS_IMAGE = (
    "docker.io/prom/prometheus:v3.5.0@sha256:63805ebb8d2b3920190daf1cb14a60871b16fd38bed42b857a3182bc621f4996"
)
"""Prometheus' image, a version with long-term support. With its digest the name always means the same image."""
PREFERRED, REQUIRED, OFF = "preferred", "required", "off"
"""The values of `spreadWorkers`, the setting for how workers are spread over nodes."""
KEPT, PER_RUN, AUTOSCALED = "kept", "per-run", "autoscaled"
"""The values of `rayWorkers`, the setting for when Ray's workers exist."""
NONE, PROMETHEUS, EXISTING = "none", "prometheus", "existing"
"""The values of `monitoring`, the setting for who reads Ray's metrics."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The settings that only a cluster has: of its pods and their storage, of Minikube's nodes, of KubeRay and the
    images, and where the cluster is."""

    head_cpus: float = setting(
        "1", number(0, 256, above=True), "CPUs of the Ray head, which runs no training", targets=CLUSTER
    )
    head_memory: Quantity = setting("2Gi", rules.quantity("1Gi"), "memory of the Ray head", targets=CLUSTER)
    ray_workers: str = setting(
        KEPT,
        choice([KEPT, PER_RUN, AUTOSCALED]),
        f"when Ray's workers exist: {KEPT}: always; {PER_RUN}: while Ray runs, so that other arms find their GPUs and"
        f" CPUs free; {AUTOSCALED}: when Ray's autoscaler asks for them",
        targets=CLUSTER,
    )
    idle_seconds: int = setting(
        "60",
        whole(10, 3600),
        f"seconds without work after which rayWorkers {AUTOSCALED} removes a worker",
        targets=CLUSTER,
        needs={"rayWorkers": (AUTOSCALED,)},
    )
    spread_workers: str = setting(
        PREFERRED,
        choice([PREFERRED, REQUIRED, OFF]),
        f"workers of Ray and of native on different nodes: {PREFERRED}: if there is room; {REQUIRED}: the numbers on"
        f" two nodes differ by one at most, or workers wait; {OFF}: as the scheduler decides",
        targets=CLUSTER,
    )
    shared_memory: Quantity | None = setting(
        "",
        rules.quantity("1Mi"),
        "size of a pod's /dev/shm, which DataLoader workers need; part of the pod's memory",
        derived="the runtime's, mostly 64Mi",
        example="1Gi",
        targets=CLUSTER,
    )
    scratch: Quantity | None = setting(
        "",
        rules.quantity("1Mi"),
        "disk that a pod may use in /tmp, its HOME, and as much again in {storage}, before it is ended",
        derived="as much as the node has",
        example="10Gi",
        targets=CLUSTER,
    )
    egress: tuple[Destination, ...] = setting(
        "",
        rules.listed(rules.destination()),
        "what pods may reach outside of the cluster",
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
        needs={"storage": (OF_CLAIMS,)},
        harmless=True,
    )
    storage_size: Quantity = setting(
        "10Gi",
        rules.quantity("1Mi"),
        "size of storage pvc; it can grow if the class allows it, but never shrink",
        targets=CLUSTER,
        needs={"storage": (OF_CLAIMS,)},
    )
    storage_secret: str | None = setting(
        "",
        rules.label(253),
        "Secret of the namespace with the credentials for storage s3://, under the names AWS_ACCESS_KEY_ID, …",
        derived="none",
        example="storage-keys",
        targets=KUBERNETES,
        needs={"storage": (OF_S3,)},
    )
    service_account: str | None = setting(
        "",
        rules.label(253),
        "ServiceAccount of the namespace; its cloud identity may use the storage",
        derived="none",
        example="training",
        targets=KUBERNETES,
        needs={"storage": (OF_BUCKETS,)},
    )
    gpu_resource: str = setting(
        "nvidia.com/gpu",
        rules.label_key(),
        "resource under which nodes offer their GPUs",
        targets=CLUSTER,
        needs={"workerGpus": ()},
    )
    runtime_class: str | None = setting(
        "",
        rules.label(253),
        "RuntimeClass of pods with a GPU, if the default runtime gives them none",
        derived="none",
        example="nvidia",
        targets=CLUSTER,
        needs={"workerGpus": ()},
    )
    gpu_node_selector: Mapping[str, str] = setting(
        "",
        rules.labels(),
        "labels of nodes with GPUs: pods with a GPU run only there, and others never",
        derived="none",
        example="accelerator=h100",
        unset={},
        targets=KUBERNETES,
        needs={"workerGpus": ()},
    )
    gpu_tolerations: tuple[Mapping[str, str], ...] | None = setting(
        "",
        rules.listed(rules.toleration()),
        "taints of nodes with GPUs, which only pods with a GPU tolerate",
        derived="one named as gpuResource",
        example="gpu=training:NoSchedule",
        targets=KUBERNETES,
        needs={"workerGpus": ()},
    )
    minikube_gpus: int = setting(
        "0",
        whole(0, 16),
        "GPUs of this machine, all of which Minikube's one node offers",
        targets=MINIKUBE,
        needs={"workerGpus": ()},
    )
    minikube_profile: str = setting(
        "",
        rules.label(58),
        "name of the Minikube cluster",
        derived="project-stack",
        example="ray-worth-it-minikube",
        unset="",
        targets=MINIKUBE,
        harmless=True,
    )
    minikube_nodes: int = setting("2", whole(1, 20), "nodes of the Minikube cluster", targets=MINIKUBE)
    minikube_cpus: int = setting("4", whole(2, 256), "CPUs of each Minikube node", targets=MINIKUBE)
    minikube_memory: Quantity = setting("7Gi", rules.quantity("2Gi"), "memory of each Minikube node", targets=MINIKUBE)
    operator: str = setting(
        "install",
        choice(["install", "existing"]),
        "install KubeRay, or use the cluster's",
        targets=CLUSTER,
    )
    kuberay_version: str = setting(
        "1.6.2",
        rules.matching(r"\d+\.\d+\.\d+", "a version such as 1.6.2"),
        "version of KubeRay, its chart and its CRDs",
        targets=CLUSTER,
        harmless=True,
    )
    offline_folder: str | None = setting(
        "",
        text("a path to a folder, as docs/offline.md describes it"),
        "folder with what is downloaded otherwise",
        name="offline",
        derived="none",
        example="docs/samples/offline",
        targets=CLUSTER,
    )
    offline: Supplies = field(default_factory=Supplies)
    """Where the parts of a cluster come from: downloads, or files in the folder `offline`."""
    image: str | None = setting(
        "",
        rules.image(),
        "image in a registry, built from this project, or, with workload script, any with Ray",
        derived="built",
        example="registry.example.com/ray-worth-it:1.0.0",
        targets=KUBERNETES,
        harmless=True,
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
        "ray-system",
        rules.label(),
        "namespace of everything that the stack creates",
        targets=CLUSTER,
        harmless=True,
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
        "kubeconfig of the cluster",
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
    monitoring: str = setting(
        NONE,
        choice([NONE, PROMETHEUS, EXISTING]),
        "who reads Ray's metrics: a Prometheus of the stack's own, or an existing one by a PodMonitor",
        targets=CLUSTER,
    )
    prometheus_image: str = setting(
        PROMETHEUS_IMAGE,
        rules.image(),
        "image of the Prometheus of monitoring prometheus",
        targets=CLUSTER,
        needs={"monitoring": (PROMETHEUS,)},
    )
    monitoring_namespace: str = setting(
        "monitoring",
        rules.label(),
        "namespace of those who read: Ray's ports with monitoring existing, Prometheus with monitoring prometheus",
        targets=CLUSTER,
        needs={"monitoring": (PROMETHEUS, EXISTING)},
    )
    pod_monitor_labels: Mapping[str, str] = setting(
        "",
        rules.labels(),
        "labels of the PodMonitor of monitoring existing, by which Prometheus chooses it",
        derived="none",
        example="release=kube-prometheus-stack",
        unset={},
        targets=KUBERNETES,
        needs={"monitoring": (EXISTING,)},
    )
    grafana_url: str | None = setting(
        "",
        rules.matching(
            r"https?://[^\s/@:?#]+(:\d{1,5})?(/[^\s@?#]*)?", "an http:// or https:// address, no password in it"
        ),
        "your Grafana, which `./rwi jobs dashboard` prints beside Ray's dashboard",
        derived="none",
        example="https://grafana.example.com",
        targets=CLUSTER,
        needs={"monitoring": (PROMETHEUS, EXISTING)},
    )
    queue: str | None = setting(
        "",
        rules.subdomain(63),
        "LocalQueue of the namespace: the RayCluster and all runs wait there for Kueue's quota",
        derived="none",
        example="training",
        targets=KUBERNETES,
    )
    queue_minutes: int = setting(
        "60",
        whole(1, 10_080),
        "minutes that the RayCluster or a run may wait in the queue",
        targets=KUBERNETES,
        needs={"queue": ()},
    )
    template_file: str | None = setting(
        "",
        text("a path to a YAML file"),
        "labels, annotations, nodes, tolerations, pull secrets, priority of all pods",
        name="podTemplate",
        derived="none",
        example="docs/samples/pods.yaml",
        targets=CLUSTER,
    )
    pod_template: PodTemplate = field(default_factory=PodTemplate)
    """The content of the file that `podTemplate` names."""
