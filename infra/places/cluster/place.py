"""The base class of places with a cluster. What only one place has is in its own class, with its components."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pulumi

from compare.measurement import Reserved
from infra.bundle import LEAST_PYTHON, LEAST_RAY, dotted
from infra.doctor import Finding
from infra.image import requirements
from infra.image import spec as image_spec
from infra.places.cluster import fit, namespace_limits, run_watch, storage_preflight
from infra.places.cluster.api import idle_workers, kube, ray_scale
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.places.cluster.manifests.pods import Pods, pods_of
from infra.places.cluster.traits import Traits
from infra.plan import RunPlan, Site
from infra.settings import cluster_checks, offline, pod_template
from infra.settings.cluster import AUTOSCALED, KEPT, ClusterSettings
from infra.settings.draft import Check, Draft, is_readable
from infra.settings.key import Target
from infra.settings.problem import Problem, set_line
from infra.settings.script import line_that_pins
from infra.settings.settings import Judgement, Settings
from training.contract.arms import WIDE
from training.contract.workload import Installed, OfOtherImage

if TYPE_CHECKING:  # they load the providers' packages, which take seconds
    from infra.places.cluster.components.access import Access
    from infra.places.cluster.components.measurement import ClusterMeasurement

PACKAGES = ("pulumi_kubernetes", "pulumi_command", "kubernetes")
"""Packages of the uv extra `cluster`, which `local` does not need."""
_RESERVED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, kw_only=True)
class ClusterSite(Site):
    """The site of runs that are Jobs of a cluster, with the pods of these runs."""

    pods: Pods


class ClusterPlace(ABC):
    """A place whose runs are Jobs of a Kubernetes cluster."""

    target: ClassVar[Target]
    traits: ClassVar[Traits]
    trains_here = False
    holds_machine: ClassVar[bool] = False

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks that apply to every cluster."""
        return (
            _namespace_is_ours,
            offline.problems,
            pod_template.problems,
            _requirements_are_pinned,
            *cluster_checks.CHECKS,
        )

    def installed(self, requirements: str | None, image: str | None) -> Installed:
        """Return the packages of the training image; of a prebuilt image, the least versions that it must have."""
        return _of_others() if image else image_spec.installed(requirements)

    def judge(self, draft: Draft, arms: Sequence[str], optional: Collection[str]) -> Judgement:
        """Return the judgement of a draft: leave out the arm `wide` if no node is known to hold its pod, and add the
        problems and remarks of this place."""
        why = self.why_no_node(draft) if WIDE.name in optional else ""
        measured = [arm for arm in arms if not (why and arm == WIDE.name)]
        unfit, remarks = self.unfit(draft, measured), self.remarks(draft, measured)
        return Judgement(absent={WIDE.name: why} if why else {}, unfit=unfit, remarks=remarks)

    @abstractmethod
    def why_no_node(self, draft: Draft) -> str:
        """Return why no node is known to hold the pod of the arm `wide`; empty if a node is known to hold it."""

    def unfit(self, draft: Draft, arms: Sequence[str]) -> list[Problem]:  # noqa: ARG002
        """Return no problems, because `up` asks the cluster what it can hold."""
        return []

    def remarks(self, draft: Draft, arms: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Return no remarks."""
        return []

    def site(self, settings: Settings) -> ClusterSite:
        """Return the site, without its nodes. A Ray run holds its workers, the head and the pod that submits the job;
        while other arms run, the RayCluster is idle."""
        recipe, cluster, worker = settings.recipe, settings.of_cluster, settings.run.worker_memory.bytes
        beside = fit.BESIDE_HEAD[cluster.ray_workers]
        cpus, memory = cluster.head_cpus + beside.cpus, cluster.head_memory.bytes + beside.memory_bytes
        workers_kept = recipe.workers if cluster.ray_workers == KEPT else 0
        gone_seconds = _gone_seconds(cluster)
        return ClusterSite(
            installed=self.installed(settings.requirements, cluster.image),
            machines={},
            pods=pods_of(settings),
            ray_overhead=Reserved(cpus=cpus + fit.SUBMITTER.cpus, memory_bytes=memory + fit.SUBMITTER.memory_bytes),
            idle_ray=Reserved(
                cpus=cpus + workers_kept * recipe.worker_cpus, memory_bytes=memory + workers_kept * worker
            ),
            workers_gone_seconds=gone_seconds,
        )

    @abstractmethod
    def survey(self, settings: Settings) -> ClusterSite:
        """Inspect the cluster, and clean up and restore what an update needs. Return the site with what was found."""

    def declare(self, settings: Settings, site: ClusterSite, runs: Sequence[RunPlan]) -> "ClusterMeasurement":
        """Declare the components in the cluster and the runs, and return the component that holds them."""
        from infra.places.cluster.components.measurement import ClusterMeasurement

        if not pulumi.runtime.is_dry_run():
            run_watch.start(settings)
        return ClusterMeasurement(settings, site.pods, runs, partial(self.reach, settings))

    @abstractmethod
    def reach(self, settings: Settings, parent: pulumi.Resource) -> "Access":
        """Return the connection to the cluster. Create the cluster first if the stack owns the cluster."""

    @abstractmethod
    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield findings about what the stack needs. Each is checked only when the caller asks for the next finding."""

    @abstractmethod
    def name(self, settings: Settings) -> str:
        """Return the cluster's name, for messages."""

    def why_down(self, settings: Settings) -> str:  # noqa: ARG002
        """Return what is known about the reason why a cluster does not answer; empty if nothing is known."""
        return ""

    @abstractmethod
    def resume(self, settings: Settings) -> None:
        """Start the stack's own cluster if it is stopped. Raise ProgramError if it does not start."""

    def dashboard_address(self, settings: Settings, node: str) -> tuple[str, int] | None:  # noqa: ARG002
        """Return the host and port of Ray's dashboard, given a node's address; None if it needs port forwarding."""
        return None

    def log_command(self, settings: Settings) -> Sequence[str]:  # noqa: ARG002
        """Return the command that prints the logs of the nodes themselves; empty if these logs cannot be read."""
        return ()


def _of_others() -> OfOtherImage:
    return OfOtherImage(python=dotted(LEAST_PYTHON), ray=dotted(LEAST_RAY))


def _gone_seconds(cluster: ClusterSettings) -> float | None:
    """Return the seconds within which Ray's workers are gone after a Ray run; None if the workers stay."""
    idle = cluster.idle_seconds if cluster.ray_workers == AUTOSCALED else 0
    return None if cluster.ray_workers == KEPT else idle + ray_scale.DOWN_SECONDS


def take_away_workers(api: Any, settings: Settings) -> None:
    """Remove Ray's workers that a failed or interrupted run left, because they hold resources that the next run needs.

    Call this only without `rayWorkers kept`. It does nothing if the update replaces the RayCluster because it has no
    autoscaler yet or one with another idle time. Raise ScaleError or KubeError if the workers cannot be removed.
    """
    cluster, namespace = settings.of_cluster, settings.of_cluster.namespace
    if cluster.ray_workers != AUTOSCALED:
        if run := ray_scale.take_away_left(api, namespace):
            pulumi.log.info(f"took away the Ray workers that {run} left")
    elif idle_workers.idle_seconds(api, namespace) == cluster.idle_seconds:
        stopped = idle_workers.wait_until_gone(api, namespace, settings.stack, cluster.idle_seconds)
        if stopped:
            pulumi.log.info(f"stopped Ray jobs of an interrupted update: {', '.join(stopped)}")


def ask_storage(settings: Settings) -> None:
    """Raise RunError if the stack has a storage, and it cannot be used from this machine."""
    if settings.storage:
        storage_preflight.ask_from_here(settings)


def storage_problems(api: Any, settings: Settings) -> list[Problem]:
    """Return what the cluster lacks for the stack's storage, each problem with the command lines that fix it. Raise
    KubeError if the cluster does not answer."""
    return storage_preflight.problems(api, settings) if settings.storage else []


def require_packages(target: str) -> None:
    """Raise RunError, with the command line that installs it, if a Python package for clusters is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise pulumi.RunError(
            f"target {target} needs Python packages that are not installed ({', '.join(missing)}). To install them:\n"
            "  uv sync --inexact"
        )


def warn_at_preview(settings: Settings, otherwise: Mapping[str, Any] | None = None) -> None:
    """Warn, instead of failing, if the cluster of the stack does not answer, because a preview needs no cluster. Warn
    also if the namespace would not admit the stack's pods. `otherwise` leads to the cluster in which a stack without a
    cluster would be created."""
    own = kube.own_path(settings.stack)
    way = own if kube.own_text(settings.stack) is not None else otherwise
    if way is None:
        return
    try:
        api = kube.connect(way)
        kube.get(api, "/version")
        for problem in namespace_limits.problems(api, settings):
            pulumi.log.warn(f"`up` would be refused: {problem}")
    except KubeError as error:
        patience = f" {kube.patience('preview')}" if way == own else ""
        pulumi.log.warn(f"{error}\nThis preview shows the cluster as it was last seen.{patience}")


def why_namespace_stays(api: Any, settings: Settings) -> str:
    """Return why an update must not stop declaring the namespace; empty if it may. Raise KubeError if the cluster does
    not answer.

    Pulumi deletes a resource that the program no longer declares, and if a namespace is deleted, Kubernetes deletes
    everything in the namespace.
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
    if draft.cluster.namespace in _RESERVED_NAMESPACES:
        yield Problem(
            draft.shown("namespace"),
            f"any namespace but {', '.join(_RESERVED_NAMESPACES)}",
            (set_line("namespace", draft.keys["namespace"].default),),
            why="this stack creates, restricts and deletes everything in its namespace",
        )


def _requirements_are_pinned(draft: Draft) -> Iterator[Problem]:
    """Yield a problem if the requirements are not pinned. The image's tag is a hash of their text, so an image with
    unpinned requirements would not be reproducible."""
    file = draft.path(draft.values.get("requirements"))
    if file is None:
        return
    remove, ways = "pulumi config rm requirements", tuple[str, ...]()
    if draft.cluster.image:
        why, ways = "image is used as it is: nothing is built into it", (remove, "pulumi config rm image")
    elif not is_readable(file):
        why, ways = f"there is no file {file}", (remove,)
    else:
        why, ways = _why_not_pinned(file, draft.recipe.workload), (line_that_pins(draft.values["requirements"]), remove)
    if why:
        yield Problem(draft.shown("requirements"), requirements.ALLOWED, ways, why=why)


def _why_not_pinned(file: Path, workload: str) -> str:
    try:
        return requirements.conflict(requirements.pins(file), image_spec.fixed(workload=workload))
    except (OSError, ValueError) as error:
        return str(error)
