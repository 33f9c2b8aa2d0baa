"""The common parts of every pod that the program declares: identity, security, size, placement. Pure: dicts, no Pulumi.

Every pod passes Pod Security `restricted`, holds no service account token, and requests the CPUs and memory that are
its limits: so no pod gains what another does not use, which a measurement would show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.places.cluster.manifests.gpus import Gpus
from infra.settings.cluster import OFF, PREFERRED, REQUIRED
from infra.settings.rules import PodTemplate
from training.launch.environment import IN_OTHER_IMAGE

Manifest = dict[str, Any]

PROJECT_LABEL = "app.kubernetes.io/part-of"
COMPONENT_LABEL = "app.kubernetes.io/component"
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""The label with the stack's name, as far as a label's value can hold the name. No selector uses it."""
RUN_LABEL = "ray-worth-it/run"
STACK_ANNOTATION = "ray-worth-it/stack"
"""The annotation of a run's Job with its stack's name. Code that tells stacks apart reads this annotation, because a
stack's name may be too long for a label, or end with a character that a label does not allow."""
PROJECT = "ray-worth-it"
SERVICE_ACCOUNT = "ray-worth-it-pods"
"""The service account of all pods except the operator's. The account has no rights, and no pod holds a token of it."""
DISK = "ephemeral-storage"
LOG_MIB = 64
"""The disk space in MiB for a container's log. A kubelet keeps five files of 10 MiB, unless told otherwise."""
USER = 1000
"""The image's user ID, as a number, because the kubelet cannot tell whether a user's name means root."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 (of the pod)
RESULTS = "/results"
"""The folder in which `training.launch.pod.run` keeps a run's files."""
STORAGE_ANNOTATION = "ray-worth-it/storage"
"""The annotation of a run's pod with the folder of its measurement in storage."""
JOB_NAME = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}
PACKED_MODULES = "modules.zip"
"""The key in the ConfigMap under which the project's packed modules lie, for an image that lacks them."""
PACKED = "/modules"
"""The folder in which an init container finds the packed modules."""
UNPACK = f"import zipfile; zipfile.ZipFile('{PACKED}/{PACKED_MODULES}').extractall('{IN_OTHER_IMAGE}')"
UNPACKED_START = ("python", "-P", f"{IN_OTHER_IMAGE}/training/launch/pod/unpacked_modules.py")
"""The command that starts an unpacked module of the project, whose name follows as the last argument."""
UNPACKED_VARIABLES = {
    "HOME": "/tmp",  # noqa: S108 (of the pod)
    "USER": "training",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Variables that the project's own image sets. In other images, user 1000 may have no name and no writable folder."""
_LABEL_LENGTH = 63
"""The most characters that a label's value may have. The value begins and ends with a letter or a digit."""
_OF_MAIN = ("image", "imagePullPolicy", "resources", "securityContext", "terminationMessagePolicy")


@dataclass(frozen=True)
class Size:
    """The CPUs and memory that a container may use, and is guaranteed."""

    cpus: float
    memory: str

    def resources(self) -> Manifest:
        """Return the container's resources, with requests equal to limits."""
        amounts = {"cpu": f"{round(self.cpus * 1000)}m", "memory": self.memory}
        return {"requests": amounts, "limits": dict(amounts)}


@dataclass(frozen=True)
class Placement:
    """What all pods have in common: the image, the nodes that they may use, and resources but CPUs and memory."""

    image: str
    template: PodTemplate = field(default_factory=PodTemplate)
    """What the user sets for all pods; with GPUs, for the pods that do not train."""
    shared_memory: str | None = None
    """The size of /dev/shm; None for the container runtime's default."""
    scratch: str | None = None
    """The size of each writable folder; None for no limit but the node's disk."""
    disk_mib: int | None = LOG_MIB
    """The disk space in MiB that a pod requests from its node, without a limit. None in a queue, because Kueue admits
    no pod that requests a resource which the ClusterQueue does not list, and few ClusterQueues list disk space."""
    stack: str = ""
    """The name of the stack to which the pods belong."""
    modules: str | None = None
    """The name of the ConfigMap with the project's modules, if the image lacks them."""
    gpus: Gpus | None = None
    """The GPUs of the pods that train; None if training uses CPUs only."""
    spread: str = PREFERRED
    """How workers are spread over the nodes: a value of the setting `spreadWorkers`."""

    def starts(self, module: str) -> list[str]:
        """Return the command that starts a module of the project with the image's Python."""
        return [*(UNPACKED_START if self.modules else ("python", "-m")), module]


def labels(component: str, stack: str = "", **more: str) -> dict[str, str]:
    """Return the labels of an object: the labels that Kubernetes recommends, and the project's own labels from `more`.
    Network policies select pods by the labels for the project and the component.
    Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/.
    """
    return {
        "app.kubernetes.io/name": PROJECT,
        INSTANCE_LABEL: stack[:_LABEL_LENGTH].strip("-_."),
        PROJECT_LABEL: PROJECT,
        COMPONENT_LABEL: component,
        "app.kubernetes.io/managed-by": "pulumi",
        **more,
    }


def metadata(
    placement: Placement, component: str, annotations: Mapping[str, str] | None = None, **more: str
) -> Manifest:
    """Return the metadata of a pod's template: the user's labels and annotations together with the project's. `more`
    are further labels of the pod."""
    of_user = placement.template
    noted = {**of_user.annotations, **(annotations or {})}
    own = {**labels(component, placement.stack), **more}
    return {"labels": {**of_user.labels, **own}, **({"annotations": noted} if noted else {})}


def container(
    name: str, image: str, size: Size, *, command: Sequence[str] = (), environment: Mapping[str, Any] | None = None
) -> Manifest:
    """Return a container's spec. The value of an environment variable is a text, or a dict as in `valueFrom`."""
    variables = [
        {"name": key, "valueFrom": value} if isinstance(value, dict) else {"name": key, "value": value}
        for key, value in (environment or {}).items()
    ]
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",  # the tag is a hash of the content, or what the user chose
        **({"command": list(command)} if command else {}),
        **({"env": variables} if variables else {}),
        "resources": size.resources(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",  # the last lines reach the error of `pulumi up`
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "results", "mountPath": RESULTS}],  # noqa: S108
    }


def mounted(pod: Manifest, name: str, path: str, source: Manifest, *, read_only: bool = True) -> Manifest:
    """Return the pod's spec with another volume mounted in its container."""
    mount = {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
    return {**_with(pod, "volumeMounts", mount), "volumes": [*pod["volumes"], {"name": name, **source}]}


def with_variables(pod: Manifest, **variables: str) -> Manifest:
    """Return the pod's spec with more environment variables in its container."""
    return _with(pod, "env", *({"name": key, "value": value} for key, value in variables.items()))


def referred(pod: Manifest, variables: Manifest) -> Manifest:
    """Return the pod's spec with more environment variables in its container, each a dict as in `valueFrom`."""
    return _with(pod, "env", *({"name": key, "valueFrom": value} for key, value in variables.items()))


def _with(pod: Manifest, part: str, *more: Manifest) -> Manifest:
    (main,) = pod["containers"]
    return {**pod, "containers": [{**main, part: [*main.get(part, ()), *more]}]}


def pod(
    main: Manifest,
    placement: Placement,
    *,
    spread: Mapping[str, str] | None = None,
    trains: bool = False,
    **more: Any,
) -> Manifest:
    """Return the spec of a pod with one container.

    `spread` are the labels of the pods that are spread over the nodes. A pod that `trains` gets the GPUs, if there are
    any.
    """
    spec = {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_with_disk(main, placement)],
        "volumes": [{"name": name, "emptyDir": _limited(placement.scratch)} for name in ("tmp", "results")],
        **({"topologySpreadConstraints": [_spread(spread, placement)]} if spread and placement.spread != OFF else {}),
        **(placement.gpus.template if placement.gpus and trains else placement.template).spec,
        **more,
    }
    if placement.gpus and trains:
        spec = placement.gpus.given_to(spec)
    if placement.modules:
        spec = _with_modules(spec, placement.modules)
    if not placement.shared_memory:
        return spec
    return mounted(
        spec,
        "shm",
        SHARED_MEMORY,
        {"emptyDir": {"medium": "Memory", **_limited(placement.shared_memory)}},
        read_only=False,
    )


def _with_modules(pod: Manifest, config_map: str) -> Manifest:
    """Return the pod's spec with the project's modules in its container. An init container unpacks the modules, so that
    no arm's measured time includes the unpacking."""
    (main,) = pod["containers"]
    unpacks = {
        "name": "modules",
        **{key: main[key] for key in _OF_MAIN},
        "command": ["python", "-P", "-c", UNPACK],
        "volumeMounts": [
            {"name": "modules", "mountPath": IN_OTHER_IMAGE},
            {"name": "packed", "mountPath": PACKED, "readOnly": True},
        ],
    }
    spec = mounted(with_variables(pod, **UNPACKED_VARIABLES), "modules", IN_OTHER_IMAGE, {"emptyDir": {}})
    packed = {"name": "packed", "configMap": {"name": config_map}}
    return {**spec, "initContainers": [unpacks], "volumes": [*spec["volumes"], packed]}


def _with_disk(main: Manifest, placement: Placement) -> Manifest:
    """Return the container with a request for disk space, if the placement has such a request."""
    if placement.disk_mib is None:
        return main
    resources = main["resources"]
    return {**main, "resources": {**resources, "requests": {**resources["requests"], DISK: f"{placement.disk_mib}Mi"}}}


def _limited(size: str | None) -> Manifest:
    return {"sizeLimit": size} if size else {}


def _spread(chosen: Mapping[str, str], placement: Placement) -> Manifest:
    """Return the constraint that spreads pods with these labels over the nodes. A required spread ignores nodes whose
    taints the pods do not tolerate, because such nodes stay empty, and beside an empty node no other node could have
    two of the pods."""
    constraint: Manifest = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(chosen)},
    }
    if placement.spread == REQUIRED:
        constraint |= {"whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    return constraint
