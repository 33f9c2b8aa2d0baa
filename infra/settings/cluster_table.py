"""The config keys of the targets with a cluster: a row each. The other keys: `infra.settings.table`."""

from infra.settings.key import CLUSTER, KUBERNETES, MINIKUBE, RAY, Key
from infra.settings.rules import destination, image, label, listed, matching, quantity, repository
from training.contract.rules import boolean, choice, number, text, whole

_PODS = (
    Key(
        name="headCpus",
        rule=number(0, 256, above=True),
        default="1",
        targets=CLUSTER,
        help="CPUs of the Ray head, which runs no training",
    ),
    Key(name="headMemory", rule=quantity("1Gi"), default="2Gi", targets=CLUSTER, help="memory of the Ray head"),
    Key(
        name="sharedMemory",
        rule=quantity("1Mi"),
        derived="what the container runtime gives, mostly 64Mi",
        example="1Gi",
        targets=CLUSTER,
        help="size of a pod's /dev/shm, which PyTorch's DataLoader workers need; it is part of the pod's memory",
    ),
    Key(
        name="scratch",
        rule=quantity("1Mi"),
        derived="as much as the node has",
        example="10Gi",
        targets=CLUSTER,
        help="disk that a pod may use in /tmp, its HOME, and as much again in {storage}; if it uses more, it is ended",
    ),
    Key(
        name="egress",
        rule=listed(destination()),
        derived="none",
        example="203.0.113.0/24:443",
        unset=(),
        targets=CLUSTER,
        help="what pods may reach outside of the cluster, for scripts that download",
    ),
)
_STORAGE = (
    Key(
        name="storageClass",
        rule=label(253),
        derived="the cluster's default",
        example="nfs-client",
        targets=CLUSTER,
        help="StorageClass of storage pvc",
    ),
    Key(
        name="storageSize",
        rule=quantity("1Mi"),
        default="10Gi",
        targets=CLUSTER,
        help="size of storage pvc; it can grow if the class allows it, but never shrink",
    ),
    Key(
        name="storageSecret",
        rule=label(253),
        derived="none",
        example="storage-keys",
        targets=KUBERNETES,
        help="Secret of the namespace with the credentials for storage s3://, under the names AWS_ACCESS_KEY_ID, …",
    ),
    Key(
        name="serviceAccount",
        rule=label(253),
        derived="none",
        example="training",
        targets=KUBERNETES,
        help="ServiceAccount of the namespace; its cloud identity may use the storage",
    ),
)
_MINIKUBE = (
    Key(
        name="minikubeProfile",
        rule=label(58),
        derived="project-stack",
        example="ray-worth-it-minikube",
        targets=MINIKUBE,
        help="name of the Minikube cluster",
    ),
    Key(name="minikubeNodes", rule=whole(1, 20), default="2", targets=MINIKUBE, help="nodes of the Minikube cluster"),
    Key(name="minikubeCpus", rule=whole(2, 256), default="4", targets=MINIKUBE, help="CPUs of each Minikube node"),
    Key(
        name="minikubeMemory",
        rule=quantity("2Gi"),
        default="6Gi",
        targets=MINIKUBE,
        help="memory of each Minikube node",
    ),
)
_OPERATOR = (
    Key(
        name="operator",
        rule=choice(["install", "existing"]),
        default="install",
        targets=CLUSTER,
        help="install KubeRay, or use the one that the cluster has",
    ),
    Key(
        name="kuberayVersion",
        rule=matching(r"\d+\.\d+\.\d+", "a version such as 1.6.2"),
        default="1.6.2",
        targets=CLUSTER,
        help="version of KubeRay, its chart and its CRDs",
    ),
)
_IMAGES = (
    Key(
        name="offline",
        rule=text("a path to a folder, as docs/offline.md describes it"),
        derived="none",
        example="docs/samples/offline",
        targets=CLUSTER,
        help="folder with what is downloaded otherwise: KubeRay's chart, the base image, Minikube's images and network",
    ),
    Key(
        name="image",
        rule=image(),
        derived="built",
        example="registry.example.com/ray-worth-it:1.0.0",
        targets=KUBERNETES,
        help="image in a registry, used as it is: one built from this project, or, with workload script, any with Ray",
    ),
    Key(
        name="imageRegistry",
        rule=repository(),
        derived="none",
        example="registry.example.com/ray-worth-it",
        targets=KUBERNETES,
        help="where the training image is pushed after it is built; instead of image",
    ),
)
_PLACE = (
    Key(
        name="namespace",
        rule=label(),
        default="ray-system",
        targets=CLUSTER,
        help="namespace of everything that the stack creates",
    ),
    Key(
        name="createNamespace",
        rule=boolean(),
        default="true",
        targets=CLUSTER,
        help="create the namespace; false: it exists, and the stack changes neither it nor other pods in it",
    ),
    Key(
        name="kubeconfig",
        rule=text("a path to a kubeconfig file"),
        derived="KUBECONFIG, or ~/.kube/config",
        example="~/.kube/config",
        targets=KUBERNETES,
        help="kubeconfig file of the cluster",
    ),
    Key(
        name="kubeContext",
        rule=text("the name of a context"),
        derived="none",
        example="staging",
        targets=KUBERNETES,
        help="context in the kubeconfig; you have to name one",
    ),
    Key(
        name="podTemplate",
        rule=text("a path to a YAML file"),
        derived="none",
        example="docs/samples/pods.yaml",
        targets=CLUSTER,
        help="part of a PodTemplateSpec for all pods: labels, annotations, nodes, tolerations, pull secrets, priority",
    ),
)
_RAY = (
    Key(
        name="rayAddress",
        rule=matching(
            r"https?://[^\s/@:?#]+(:\d{1,5})?(/[^\s@?#]*)?",
            "the http:// or https:// address of Ray's dashboard, which takes jobs; not ray://, and no password in it",
        ),
        derived="none",
        example="http://ray-head.example.com:8265",
        targets=RAY,
        help="address of the dashboard of the Ray cluster that runs the measurement",
    ),
    Key(
        name="rayToken",
        rule=text("the cluster's token"),
        derived="none",
        example="0123456789abcdef",
        unset="",
        targets=RAY,
        help="that cluster's token, set with --secret; leave it unset if the cluster asks for none",
        secret=True,
    ),
)

CLUSTER_KEYS = (*_PODS, *_STORAGE, *_MINIKUBE, *_OPERATOR, *_IMAGES, *_PLACE, *_RAY)
