"""The target `minikube`: a cluster of this machine that the stack makes."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi

from infra.doctor import Finding
from infra.image import base as image_base
from infra.image import command as image_command
from infra.places.cluster import gone, namespace_limits
from infra.places.cluster.api import helm_release, kube, leftover_jobs, ray_api
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_api import RayError
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.fit import (
    GIB,
    RESERVED,
    RESERVED_WITHOUT_CONTROL_PLANE,
    Measurement,
    Size,
    arms_to_leave_out,
    cluster_fit,
    gpu_lines,
    gpu_shortage,
    largest_worker,
    measurement_of,
    node_that_fits,
    room,
    smallest_node,
    spread,
    unlike_spreads,
    without_arms_line,
    worker_line,
)
from infra.places.cluster.manifests import dashboard, operator
from infra.places.cluster.place import (
    ClusterPlace,
    ClusterSite,
    ask_storage,
    require_packages,
    storage_problems,
    take_away_workers,
    warn_at_preview,
    why_namespace_stays,
)
from infra.places.cluster.traits import Traits
from infra.places.minikube import command, doctor
from infra.places.minikube.spec import KUBERNETES, wanted_cluster
from infra.programs import ProgramError
from infra.settings.cluster import KEPT, ClusterSettings
from infra.settings.draft import Check, Draft
from infra.settings.problem import Problem, set_line
from infra.settings.rules import CLAIM
from infra.settings.sections import ON
from infra.settings.settings import Settings, profile_of, recipe_of
from training.contract.arms import ARMS, NATIVE, WIDE, Arm, counted
from training.contract.provenance import PROJECT
from training.launch.ray import other_jobs
from training.machine import machine_lock

if TYPE_CHECKING:
    from infra.places.cluster.components.access import Access


class MinikubePlace(ClusterPlace):
    """A Minikube cluster on this machine, which is created and deleted with the stack."""

    target = "minikube"
    holds_machine = True
    traits = Traits(owned=True, pod_range="10.244.0.0/16")  # kubeadm's default, which all of its pod networks keep

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of this target, then those of every cluster."""
        own = (
            _profile_has_a_name,
            _operator_is_installed,
            _one_node_has_the_gpus,
        )
        return (*own, *super().checks)

    def unfit(self, draft: Draft, arms: Sequence[str]) -> list[Problem]:
        """Return a problem for everything in the measurement that exceeds the nodes or this machine."""
        node, kept = _node(draft), _kept(draft.cluster.minikube_nodes)
        measurement = _measurement(draft, arms)
        return [
            *_unfit_nodes(measurement, node, kept),
            *_unfit_cores(draft, measurement, node, kept),
            *_unfit_memory(draft, measurement, node, kept),
        ]

    def remarks(self, draft: Draft, arms: Sequence[str]) -> list[str]:
        """Return a remark if the runs' storage is deleted with the cluster, and a remark if the arms' workers are
        spread differently."""
        of_storage = "storage pvc is in the Minikube cluster: `destroy` deletes that, with what was kept there"
        unlike = _unlike_spreads(_measurement(draft, arms), _node(draft), _kept(draft.cluster.minikube_nodes))
        return [*([of_storage] if draft.storage.address == CLAIM else []), *([unlike] if unlike else [])]

    def why_no_node(self, draft: Draft) -> str:
        """Return why the arm `wide` does not fit the nodes, or needs more than this machine has; else empty."""
        kept, node = _kept(draft.cluster.minikube_nodes), _node(draft)
        measurement = _measurement(draft, [name for name, arm in ARMS.items() if arm is WIDE or _is_on(arm, draft)])
        others = measurement.without(WIDE.name)
        if WIDE.name in cluster_fit(measurement, [node] * len(kept), kept):
            larger = node_that_fits(measurement.without(NATIVE.name), kept, node)
            pod = f"its pod of {measurement.wide} next to the idle Ray pods"
            return f"no Minikube node of {node} holds {pod}; nodes of {larger} do"
        before, most = others.most(kept), measurement.most(kept)
        cores, memory = draft.facts.physical_cores, draft.facts.memory_bytes
        if most == before or (most.cpus <= cores and most.memory_bytes <= memory):
            return ""
        return f"it needs a machine with {most}, and this one has {cores} cores and {memory // GIB} GiB"

    def site(self, settings: Settings) -> ClusterSite:
        """Return the site with the nodes that the settings describe."""
        cluster = settings.of_cluster
        machines = {
            "nodes": cluster.minikube_nodes,
            "cpus": cluster.minikube_cpus,
            "memory": cluster.minikube_memory.bytes,
            "kubernetes": KUBERNETES,
            "cni": cluster.offline.network_digest or cluster.offline.network,
            **({"gpus": cluster.minikube_gpus} if cluster.minikube_gpus else {}),
        }
        return replace(super().site(settings), machines=machines)

    def survey(self, settings: Settings) -> ClusterSite:
        """Raise RunError if the cluster was deleted or is stopped. Otherwise clean up after a killed `up`, reload
        images that the nodes lost, and return the site. A preview changes nothing."""
        require_packages(self.target)
        ask_storage(settings)
        preview = pulumi.runtime.is_dry_run()
        if preview:
            warn_at_preview(settings)
        else:
            _have_machine()
            _refuse_and_clear(settings)
        gone.refuse(settings)
        site = self.site(image_base.pinned(settings))
        if not preview:
            _bring_back_images(settings.of_cluster, site.pods.placement.image)
        return site

    def reach(self, settings: Settings, parent: pulumi.Resource) -> "Access":
        """Declare the cluster, and return the access through the kubeconfig that its start command writes."""
        from infra.image.training_image import Nodes
        from infra.places.cluster.components.access import Access, provider
        from infra.places.minikube.cluster import Minikube

        cluster = settings.of_cluster
        minikube = Minikube("minikube", wanted_cluster(settings), pulumi.ResourceOptions(parent=parent))
        return Access(
            provider=provider(settings.stack, self.traits, minikube.started, parent),
            stack=settings.stack,
            namespace=cluster.namespace,
            kubeconfig=kube.own_path(settings.stack),
            traits=self.traits,
            cluster=minikube.started,
            nodes=Nodes(cluster.minikube_profile, cluster.minikube_nodes, minikube.started),
            address=minikube.address,
            servers=None if cluster.offline.network == "cilium" else minikube.servers,  # as in `inspection.servers`
        )

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings about this machine that `up` checks."""
        cluster = settings.of_cluster
        yield from doctor.findings(wanted_cluster(settings))
        node = Size(cluster.minikube_cpus, cluster.minikube_memory.bytes, cluster.minikube_gpus)
        kept = _kept(cluster.minikube_nodes)
        yield room(settings, [node] * len(kept), kept)
        measurement = measurement_of(settings.recipe, settings.run.worker_memory, cluster, settings.arms)
        yield from spread(_unlike_spreads(measurement, node, kept))
        yield from (Finding("fit", "see below", "all pods fit", False, text) for text in settings.refused_at_up)

    def name(self, settings: Settings) -> str:
        """Return the name of the Minikube profile."""
        return settings.of_cluster.minikube_profile

    def why_down(self, settings: Settings) -> str:
        """Return what Minikube reports about the cluster if it cannot be used; empty if it runs."""
        try:
            return command.trouble(settings.of_cluster.minikube_profile)
        except ProgramError as failure:
            return str(failure)

    def resume(self, settings: Settings) -> None:
        """Start the cluster if it is stopped. A cluster that was never created is left to `up`."""
        command.resume(settings.of_cluster.minikube_profile)

    def dashboard_address(self, settings: Settings, node: str) -> tuple[str, int]:  # noqa: ARG002
        """Return the node's address and the NodePort of the dashboard, which is reachable only from Linux."""
        return node, dashboard.NODE_PORT

    def log_command(self, settings: Settings) -> Sequence[str]:
        """Return the command that prints the logs of the kubelet, containerd and the control plane."""
        return ("minikube", "--profile", settings.of_cluster.minikube_profile, "logs")


def _bring_back_images(cluster: ClusterSettings, image: str) -> None:
    """Reload images that are missing on the nodes, without which pods would stay in ImagePullBackOff."""
    if cluster.image or not command.started(cluster.minikube_profile):
        return
    try:
        image_command.bring_back(cluster.minikube_profile, [image, *cluster.offline.images])
    except ProgramError as failure:
        raise pulumi.RunError(str(failure)) from None


def _have_machine() -> None:
    """Hold the machine's lock during the update, whose runs use this machine.

    If `./rwi up` already holds the lock for this update, there is no wait.
    """
    try:
        machine_lock.hold(lambda text: print(text, flush=True))  # Pulumi's own log would say it after the wait
    except machine_lock.LockError as error:
        raise pulumi.RunError(str(error)) from None


def _refuse_and_clear(settings: Settings) -> None:
    """Raise RunError if the cluster was deleted, or stopped, or is unusable; else clean up after a killed `up`."""
    profile, own = settings.of_cluster.minikube_profile, kube.own_path(settings.stack)
    try:
        trouble = command.trouble(profile)
    except ProgramError as failure:
        raise pulumi.RunError(str(failure)) from None
    if trouble:
        raise pulumi.RunError(trouble)
    if not (PROJECT / own).is_file():
        return
    try:
        api = kube.connect(own)
        reason = why_namespace_stays(api, settings)
        if reason:
            raise pulumi.RunError(f"{reason}; nothing was changed:\n  {set_line('createNamespace', ON)}")
        for problem in _problems(api, settings):
            raise pulumi.RunError("\n  ".join([f"{problem.what}; nothing was changed:", *problem.fixes]))
        _keep_others_jobs(api, settings)
        _clear(api, settings.of_cluster.namespace)
        if settings.of_cluster.ray_workers != KEPT:
            take_away_workers(api, settings)
    except (RayError, ScaleError) as error:
        raise pulumi.RunError(f"nothing was changed: {error}") from None
    except KubeError as error:
        if command.started(profile):
            raise pulumi.RunError(f"the cluster could not be asked: {error}") from None
        pulumi.log.debug(f"leftovers were not searched in an incomplete cluster: {error}")


def _problems(api: Any, settings: Settings) -> list[Problem]:
    """Return the problems of a cluster that answers, except those that `allowOversubscription` permits."""
    problems = [*storage_problems(api, settings), *namespace_limits.problems(api, settings)]
    return [problem for problem in problems if not (problem.liftable and settings.run.allow_oversubscription)]


def _keep_others_jobs(api: Any, settings: Settings) -> None:
    """Raise RunError if somebody else's Ray job runs, also in a namespace that the update would leave and so delete."""
    wanted = settings.of_cluster.namespace
    for namespace in sorted({wanted, *ray_api.namespaces(api)}):
        others = ray_api.jobs_of_others(api, namespace, settings.stack)
        if others:
            back = f"namespace is {wanted}, and the Ray cluster is in {namespace}; to go back there:\n  "
            moved = "" if namespace == wanted else f"{back}{set_line('namespace', namespace)}\n"
            raise pulumi.RunError(f"nothing was changed: {moved}{other_jobs.refusal(others, settings.stack)}")


def _clear(api: Any, namespace: str) -> None:
    """End the Jobs of a killed update, and mark its pending Helm revisions as failed: both would block this one."""
    jobs = leftover_jobs.end_unfinished(api, namespace)
    if jobs:
        pulumi.log.info(f"ended Jobs of an interrupted update: {', '.join(jobs)}")
    pending = helm_release.mark_failed(api, namespace, operator.RELEASE)
    if pending:
        pulumi.log.info(f"retrying an interrupted installation of the operator ({', '.join(pending)})")


def _profile_has_a_name(draft: Draft) -> Iterator[Problem]:
    rule, name = draft.keys["minikubeProfile"].rule, profile_of(draft)
    try:
        rule.parse(name)
    except ValueError:
        usable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:58].strip("-")
        yield Problem(
            f"minikubeProfile = {name} (from project and stack)",
            rule.allowed,
            (set_line("minikubeProfile", usable),),
        )


def _operator_is_installed(draft: Draft) -> Iterator[Problem]:
    if draft.cluster.operator == "existing":
        yield Problem(
            draft.shown("operator"),
            "install, with target minikube",
            (set_line("operator", "install"),),
            why="the stack creates this cluster, so no KubeRay exists in it; an update would delete the one that it"
            " installed",
        )


def _one_node_has_the_gpus(draft: Draft) -> Iterator[Problem]:
    if draft.cluster.minikube_gpus and draft.cluster.minikube_nodes != 1:
        yield Problem(
            f"{draft.shown('minikubeNodes')} with {draft.shown('minikubeGpus')}",
            "one node, if it has GPUs",
            (set_line("minikubeNodes", "1"), "pulumi config rm minikubeGpus && pulumi config rm workerGpus"),
            why="Minikube gives every node all GPUs of this machine, so two nodes would offer each GPU twice",
        )


def _node(draft: Draft) -> Size:
    return Size(draft.cluster.minikube_cpus, draft.cluster.minikube_memory.bytes, draft.cluster.minikube_gpus)


def _kept(nodes: int) -> list[Size]:
    """Return what is reserved on each node for system pods. The first node also has the control plane."""
    return [RESERVED, *[RESERVED_WITHOUT_CONTROL_PLANE] * (nodes - 1)]


def _measurement(draft: Draft, arms: Iterable[str]) -> Measurement:
    return measurement_of(recipe_of(draft), draft.run.worker_memory, draft.cluster, tuple(arms))


def _is_on(arm: Arm, draft: Draft) -> bool:
    return not arm.switch or draft.values.get(arm.switch) is True


def _unfit_nodes(measurement: Measurement, node: Size, kept: Sequence[Size]) -> Iterator[Problem]:
    """Yield a problem if the scheduler could not place all pods on the nodes."""
    nodes = [node] * len(kept)
    if measurement.worker.gpus and (shortage := gpu_shortage(measurement, nodes)):
        ways = (*gpu_lines(measurement, nodes), set_line("minikubeGpus", max(measurement.gpus_at_once().values())))
        yield Problem(shortage, fixes=(*ways, "pulumi config rm workerGpus"))
        return
    arms = cluster_fit(measurement, nodes, kept)
    if arms:
        larger = _size_lines(node, node_that_fits(measurement, kept, node))
        fewer = arms_to_leave_out(measurement, lambda smaller: not cluster_fit(smaller, nodes, kept))
        largest = largest_worker(measurement, nodes, kept)
        smaller = [worker_line(largest.at_most(measurement.worker))] if largest else []
        yield Problem(
            f"the pods of {' and '.join(arms)}, together with a Ray cluster of {_workers(measurement)}, do not fit"
            f" {counted(len(kept), 'node')} of {node}; reserved for the system: {', '.join(map(str, kept))}",
            fixes=(*without_arms_line(fewer), *smaller, larger),
        )


def _unlike_spreads(measurement: Measurement, node: Size, kept: Sequence[Size]) -> str:
    """Return a description of how the arms' workers will be spread differently, with the command line that makes the
    nodes large enough; empty if the arms do not differ."""
    unlike = unlike_spreads(measurement, [node] * len(kept), kept)
    if not unlike:
        return ""
    larger = smallest_node(lambda nodes: not unlike_spreads(measurement, nodes, kept), measurement, kept, node)
    return f"{unlike}. Nodes of {larger} have room:  {_size_lines(node, larger)}"


def _workers(measurement: Measurement) -> str:
    return counted(measurement.workers, "worker")


def _size_lines(node: Size, larger: Size) -> str:
    cpus = [set_line("minikubeCpus", f"{larger.cpus:g}")] if larger.cpus > node.cpus else []
    more = larger.memory_bytes > node.memory_bytes
    memory = [set_line("minikubeMemory", f"{larger.memory_bytes // GIB}Gi")] if more else []
    return " && ".join([*cpus, *memory])


def _unfit_cores(draft: Draft, measurement: Measurement, node: Size, kept: Sequence[Size]) -> Iterator[Problem]:
    """Yield a problem if this machine has too few physical cores, which nodes share: each reports all as its own."""
    cores = draft.facts.physical_cores
    needed = math.ceil(max(measurement.most(kept).cpus - 1e-9, node.cpus))
    if needed > cores:
        fewer = arms_to_leave_out(measurement, lambda smaller: max(smaller.most(kept).cpus, node.cpus) <= cores)
        yield Problem(
            f"{_workers(measurement)} and the other pods need a machine with"
            f" {counted(needed, 'physical core')}, and this one has {cores}",
            fixes=(*without_arms_line(fewer), set_line("allowOversubscription", "true")),
            liftable=True,
        )


def _unfit_memory(draft: Draft, measurement: Measurement, node: Size, kept: Sequence[Size]) -> Iterator[Problem]:
    """Yield a problem if this machine has too little memory, which no setting permits."""
    memory = draft.facts.memory_bytes
    needed = max(measurement.most(kept).memory_bytes, node.memory_bytes)
    if needed > memory:
        fewer = arms_to_leave_out(
            measurement, lambda smaller: max(smaller.most(kept).memory_bytes, node.memory_bytes) <= memory
        )
        yield Problem(
            f"{_workers(measurement)} and the other pods need a machine with {math.ceil(needed / GIB)} GiB"
            f" of memory, and this one has {math.floor(memory / GIB)}",
            fixes=(*without_arms_line(fewer), set_line("target", "local")),
        )
