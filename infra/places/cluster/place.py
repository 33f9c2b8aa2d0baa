"""What the places with a cluster have in common. What is one place's own is in its own class, beside its components."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pulumi

from compare.measurement import Reserved
from infra.doctor import Finding
from infra.image import requirements
from infra.image import spec as image_spec
from infra.places.cluster import fit, kube
from infra.places.cluster.kube import KubeError
from infra.places.cluster.pod_spec import PROJECT, PROJECT_LABEL
from infra.places.cluster.pods import Pods, pods_of
from infra.plan import RunPlan
from infra.settings.checks import Check, is_readable, path_of
from infra.settings.draft import Draft, Problem, Unfit, set_line
from infra.settings.key import Target
from infra.settings.settings import Settings
from training.contract.workload import Installed, OfOtherImage

if TYPE_CHECKING:  # they load the providers' packages, which take seconds
    from infra.places.cluster.access import Access
    from infra.places.cluster.measurement import ClusterMeasurement

PACKAGES = ("pulumi_kubernetes", "pulumi_command", "kubernetes")
"""Of the uv extra `cluster`, which `local` does without."""
_RESERVED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What clusters differ in, for what is made in them."""

    owned: bool
    """The stack makes the cluster: everything in it goes with it, and what an interrupted update left is taken over."""
    pod_range: str | None
    """The pods' addresses, which may not use the port that the dashboard has at every node. None: it has none."""


class ClusterPlace(ABC):
    """A place whose runs are Jobs of a Kubernetes cluster."""

    target: ClassVar[Target]
    traits: ClassVar[Traits]
    trains_here = False
    holds_machine: ClassVar[bool] = False

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must agree on every cluster."""
        return (
            Check(_namespace_is_ours, ("namespace",)),
            Check(_chart_is_there, ("operator", "kuberayChart")),
            Check(_requirements_are_pinned, ("requirements", "image")),
        )

    def installed(self, requirements: str | None, image: str | None) -> Installed:
        """What the training image has, with these; of one that somebody else made, what it is asked for."""
        return _of_others() if image else image_spec.installed(requirements)

    def why_not(self, arm: str, draft: Draft) -> str:
        """Tuned Ray starts for each run, and here is one Ray cluster for all."""
        if arm == "tuned":
            return "it is a Ray that starts for each run, on target local"
        return self.why_no_node(draft) if arm == "wide" else ""

    @abstractmethod
    def why_no_node(self, draft: Draft) -> str:
        """Why no node is known to hold the pod of the wide arm; empty where one is."""

    def unfit(self, draft: Draft) -> list[Unfit]:  # noqa: ARG002
        """Nothing: what a cluster holds is asked at `up`."""
        return []

    def remarks(self, draft: Draft) -> list[str]:  # noqa: ARG002
        """Nothing."""
        return []

    def machines(self, settings: Settings) -> Mapping[str, Any]:  # noqa: ARG002
        """What is known of the nodes before there are any: nothing."""
        return {}

    def pods(self, settings: Settings) -> Pods:
        """The pods that the settings make."""
        return pods_of(settings)

    def beside_workers(self, settings: Settings) -> Reserved:
        """What a Ray run has beside its workers: the head, and the pod that submits."""
        head = settings.of_cluster
        return Reserved(
            cpus=head.head_cpus + fit.SUBMITTER.cpus, memory_bytes=head.head_memory.bytes + fit.SUBMITTER.memory_bytes
        )

    def idle_ray(self, settings: Settings) -> Reserved:
        """What the RayCluster holds while other arms run."""
        recipe, head = settings.recipe, settings.of_cluster
        return Reserved(
            cpus=head.head_cpus + recipe.workers * recipe.worker_cpus,
            memory_bytes=head.head_memory.bytes + recipe.workers * settings.worker_memory_bytes,
        )

    @abstractmethod
    def prepare(self, settings: Settings) -> Settings:
        """Look at the cluster, clear and bring back what an update needs; the settings with what that found out."""

    def build(self, settings: Settings, runs: Sequence[RunPlan]) -> "ClusterMeasurement":
        """Everything in the cluster, and the runs."""
        from infra.places.cluster.measurement import ClusterMeasurement

        return ClusterMeasurement("measurement", settings, runs, partial(self.reach, settings))

    @abstractmethod
    def reach(self, settings: Settings, parent: pulumi.Resource) -> "Access":
        """How the program reaches the cluster; made, where the stack makes it."""

    @abstractmethod
    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """What the stack needs, one after another; each is looked at when it is asked for."""

    @abstractmethod
    def name(self, settings: Settings) -> str:
        """The cluster's, for people."""

    def why_down(self, settings: Settings) -> str:  # noqa: ARG002
        """What is known of a cluster that does not answer; empty for nothing."""
        return ""

    @abstractmethod
    def resume(self, settings: Settings) -> None:
        """Start a cluster of ours that was stopped; raises ProgramError."""

    def dashboard_address(self, settings: Settings, node: str) -> tuple[str, int] | None:  # noqa: ARG002
        """Where Ray's dashboard answers; `node` is a node's address. None: only while it is forwarded."""
        return None

    def log_command(self, settings: Settings) -> Sequence[str]:  # noqa: ARG002
        """What prints the logs of the nodes themselves; nothing where nobody may read them."""
        return ()


def _of_others() -> OfOtherImage:
    from infra.bundle import LEAST_PYTHON, LEAST_RAY, dotted  # of what most stacks do without

    return OfOtherImage(python=dotted(LEAST_PYTHON), ray=dotted(LEAST_RAY))


def ask_storage(settings: Settings) -> None:
    """Refuse storage that can't be used from this machine, where the settings have any. Raises RunError."""
    if settings.storage:
        from infra.places.cluster.storage_preflight import ask_from_here  # of what most stacks do without

        ask_from_here(settings)


def storage_findings(api: Any, settings: Settings) -> list[tuple[str, tuple[str, ...]]]:
    """Why the cluster has not what storage needs, each with the lines that mend it. Raises KubeError."""
    if settings.storage is None:
        return []
    from infra.places.cluster.storage_preflight import findings

    return findings(api, settings)


def require_packages(target: str) -> None:
    """Raises RunError with the line that installs what a cluster's program needs, where it is not there."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise pulumi.RunError(
            f"target {target} needs Python packages that are not installed ({', '.join(missing)}). To install them:\n"
            "  uv sync --inexact"
        )


def warn_of_silence(stack: str, otherwise: Mapping[str, Any] | None = None) -> None:
    """Say at preview that the stack's cluster, or the one it would be made in, does not answer: none is needed."""
    own = kube.own_path(stack)
    way = own if kube.own_text(stack) is not None else otherwise
    if way is None:
        return
    try:
        kube.get(kube.connect(way), "/version")
    except KubeError as error:
        patience = f" {kube.patience('preview')}" if way == own else ""
        pulumi.log.warn(f"{error}\nThis preview shows the cluster as it was last seen.{patience}")


def why_namespace_stays(api: Any, settings: Settings) -> str:
    """Why an update that no longer declares the namespace must not be made; empty where it may. Raises KubeError.

    Pulumi deletes what it made and no longer finds in the program, and Kubernetes everything in a namespace with it.
    """
    cluster = settings.of_cluster
    if cluster.create_namespace:
        return ""
    try:
        namespace = kube.get(api, f"/api/v1/namespaces/{cluster.namespace}")
    except KubeError as error:
        if error.status != 404:
            raise
        return ""
    if (namespace["metadata"].get("labels") or {}).get(PROJECT_LABEL) != PROJECT:
        return ""
    return (
        f"this project made the namespace {cluster.namespace}, and createNamespace is false:"
        " an update would delete it, with everything in it"
    )


def _namespace_is_ours(draft: Draft) -> Iterator[Problem]:
    if draft["namespace"] in _RESERVED_NAMESPACES:
        yield Problem(
            draft.shown("namespace"),
            f"any namespace but {', '.join(_RESERVED_NAMESPACES)}",
            (set_line("namespace", draft.keys["namespace"].default),),
            why="everything in it is made, restricted and removed by this stack",
        )


def _requirements_are_pinned(draft: Draft) -> Iterator[Problem]:
    """The image they are built into is found by their text: a version left open would be whatever was new that day."""
    file = path_of(draft, "requirements")
    if file is None:
        return
    from infra.settings.script import line_that_pins  # of a workload that is not always there

    remove, ways = "pulumi config rm requirements", tuple[str, ...]()
    if draft["image"]:
        why, ways = "image is used as it is: nothing is built into it", (remove, "pulumi config rm image")
    elif not is_readable(file):
        why, ways = f"there is no file {file}", (remove,)
    else:
        why, ways = _why_not_pinned(file), (line_that_pins(draft["requirements"]), remove)
    if why:
        yield Problem(draft.shown("requirements"), requirements.ALLOWED, ways, why=why)


def _why_not_pinned(file: Path) -> str:
    try:
        return requirements.conflict(requirements.pins(file), image_spec.fixed())
    except (OSError, ValueError) as error:
        return str(error)


def _chart_is_there(draft: Draft) -> Iterator[Problem]:
    chart, path = draft["kuberayChart"], path_of(draft, "kuberayChart")
    is_path = "://" not in chart and ("/" in chart or chart.endswith(".tgz"))
    if draft["operator"] == "install" and is_path and not is_readable(path):
        yield Problem(
            draft.shown("kuberayChart"),
            draft.keys["kuberayChart"].rule.allowed,
            (set_line("kuberayChart", draft.keys["kuberayChart"].default),),
            why=f"there is no file or folder {path}",
        )
