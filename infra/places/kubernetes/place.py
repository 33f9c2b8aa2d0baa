"""The target `kubernetes`: an existing cluster, which may be shared. Nothing is ever taken over there."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pulumi

from infra.doctor import Finding, docker
from infra.image import base as image_base
from infra.places.cluster import fit, gone
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.ray_scale import ScaleError
from infra.places.cluster.fit import RESERVED
from infra.places.cluster.place import (
    ClusterPlace,
    ClusterSite,
    ask_storage,
    require_packages,
    take_away_workers,
    warn_at_preview,
)
from infra.places.cluster.traits import Traits
from infra.places.kubernetes import inspection, kubeconfig
from infra.places.kubernetes.kubeconfig import NotHereError, Selected
from infra.settings.cluster import KEPT
from infra.settings.draft import Check, Draft
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from infra.settings.settings import Settings

if TYPE_CHECKING:
    from infra.places.cluster.components.access import Access


class ExistingCluster(ClusterPlace):
    """The cluster to which a named context leads, which stays the same as long as the stack exists."""

    target = "kubernetes"
    traits = Traits(owned=False, pod_range=None)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the checks of this target, then those of every cluster."""
        own = (
            _image_is_known,
            _context_is_named,
        )
        return (*own, *super().checks)

    def why_no_node(self, draft: Draft) -> str:  # noqa: ARG002
        """Return a sentence that says that the nodes are unknown, because a preview may see no cluster."""
        return f"whether a node holds it is not known at preview; if one does: {set_line('wideArm', ON)}"

    def survey(self, settings: Settings) -> ClusterSite:
        """Log which cluster it is, check that it can hold the measurement, and determine the digest of the image's
        base. Raise RunError if the cluster cannot be used."""
        require_packages(self.target)
        _refuse_unusable(settings)
        gone.refuse(settings)
        ask_storage(settings)
        if settings.of_cluster.ray_workers != KEPT and not pulumi.runtime.is_dry_run():
            _take_away_workers(settings)
        return self.site(image_base.pinned(settings))

    def reach(self, settings: Settings, parent: pulumi.Resource) -> "Access":
        """Return the access through the stack's own kubeconfig, which is written for this cluster and no other."""
        from infra.places.cluster.components.access import Access, provider
        from infra.places.kubernetes.pinned_cluster import DestroyCheck, PinnedCluster

        cluster, options = settings.of_cluster, pulumi.ResourceOptions(parent=parent)
        pinned = PinnedCluster(settings.stack, cluster.kubeconfig, cluster.kube_context or "", options)
        return Access(
            provider=provider(settings.stack, self.traits, pinned, parent),
            stack=settings.stack,
            namespace=cluster.namespace,
            kubeconfig=kube.own_path(settings.stack),
            traits=self.traits,
            servers=pinned.servers,
            guard=partial(DestroyCheck, pinned),
        )

    def doctor(self, settings: Settings) -> Iterator[Finding]:
        """Yield the findings about the cluster that `up` checks, and about Docker if the image is built here."""
        if settings.of_cluster.image_registry:
            yield docker()
        needed = "a cluster that answers"
        try:
            selected = _selected(settings)
            api = kube.connect(selected.content)
            nodes, obstacles = inspection.nodes(api, settings), inspection.problems(api, settings)
            unseen = inspection.unseen_queue(api, settings)
        except KubeError as error:
            yield Finding("cluster", "see below", needed, False, str(error))
            return
        yield Finding("cluster", str(selected), needed, True)
        sizes = list(nodes.values())
        yield fit.room(settings, sizes, [RESERVED] * len(nodes))
        yield from fit.spread(inspection.spread(settings, sizes))
        if unseen:
            yield Finding("queue", unseen, f"LocalQueue {settings.of_cluster.queue}", True)
        for obstacle in obstacles:
            lifted = obstacle.liftable and settings.run.allow_oversubscription
            needed = "room for the measurement, without foreign runs"
            yield Finding("cluster", "see below", needed, lifted, str(obstacle))

    def resume(self, settings: Settings) -> None:
        """Do nothing, because the cluster is not the stack's to start."""

    def name(self, settings: Settings) -> str:
        """Return a text with the name of the cluster's context."""
        return f"context {settings.of_cluster.kube_context}"


def _take_away_workers(settings: Settings) -> None:
    """Remove workers that a run left, in the cluster to which the stack belongs. Raise RunError if that fails."""
    own = kube.own_path(settings.stack)
    if kube.own_text(settings.stack) is None:
        return
    try:
        take_away_workers(kube.connect(own), settings)
    except ScaleError as error:
        raise pulumi.RunError(f"nothing was changed: {error}") from None
    except KubeError as error:
        raise pulumi.RunError(f"whether a run left Ray workers could not be found out: {error}") from None


def _selected(settings: Settings) -> Selected:
    cluster = settings.of_cluster
    return kubeconfig.select(cluster.kubeconfig, cluster.kube_context or "")


def _refuse_unusable(settings: Settings) -> None:
    """Log which cluster it is. Raise RunError if it cannot hold the measurement or does not answer. A preview only
    warns, except about the queue, and about a kubeconfig that cannot be used."""
    try:
        selected = _selected(settings)
        pulumi.log.info(f"the cluster: {selected}")
        if pulumi.runtime.is_dry_run():
            warn_at_preview(settings, selected.content)
            _refuse_queue(selected, settings)
            return
        api = kube.connect(selected.content)
        obstacles, nodes = inspection.problems(api, settings), inspection.nodes(api, settings)
        unseen = inspection.unseen_queue(api, settings)
    except KubeError as error:
        if pulumi.runtime.is_dry_run() and isinstance(error, NotHereError):
            pulumi.log.warn(f"the cluster is not known here, and `up` would be refused: {error}")
            return
        raise pulumi.RunError(f"the cluster could not be asked; nothing was changed.\n{error}") from None
    _refuse("This cluster does not meet the requirements below; nothing was changed.", obstacles, settings)
    for remark in filter(None, (inspection.spread(settings, list(nodes.values())), unseen)):
        pulumi.log.warn(remark)


def _refuse(title: str, obstacles: Sequence[Problem], settings: Settings) -> None:
    """Warn about the obstacles that `allowOversubscription` permits, and raise RunError if there are others."""
    lifted = [obstacle for obstacle in obstacles if obstacle.liftable and settings.run.allow_oversubscription]
    for obstacle in lifted:
        pulumi.log.warn(obstacle.what)
    refused = [str(obstacle) for obstacle in obstacles if obstacle not in lifted]
    if refused:
        raise pulumi.RunError("\n\n".join([title, *refused]))


def _refuse_queue(selected: Selected, settings: Settings) -> None:
    """Raise RunError, also at preview, if a cluster that answers has no such queue, or an inactive one."""
    if not settings.of_cluster.queue:
        return
    with suppress(KubeError):
        api = kube.connect(selected.content)
        if unseen := inspection.unseen_queue(api, settings):
            pulumi.log.warn(unseen)
        obstacles = list(inspection.queue(api, settings))
        _refuse("`up` would be refused: this cluster does not meet the requirements below.", obstacles, settings)


def _image_is_known(draft: Draft) -> Iterator[Problem]:
    image, registry = draft.cluster.image, draft.cluster.image_registry
    if bool(image) != bool(registry):
        return
    if image:
        ways: tuple[str, ...] = ("pulumi config rm imageRegistry", "pulumi config rm image")
        why = "image is used as it is, imageRegistry has one built and pushed: only one can be meant"
    else:
        ways = tuple(set_line(key, draft.keys[key].example) for key in ("image", "imageRegistry"))
        why = "the cluster pulls the training image from a registry; with imageRegistry it is built and pushed there"
    yield Problem(
        f"{draft.shown('image')} and {draft.shown('imageRegistry')}", "one of the two on target kubernetes", ways, why
    )


def _context_is_named(draft: Draft) -> Iterator[Problem]:
    if not draft.cluster.kube_context:
        path = draft.path(draft.cluster.kubeconfig)
        current = kubeconfig.current_context(str(path) if path else None)
        yield Problem(
            "kubeContext not set",
            f"{draft.keys['kubeContext'].rule.allowed} on target kubernetes",
            (set_line("kubeContext", current or draft.keys["kubeContext"].example),),
            why="a stack belongs to one cluster, and the current context may be another tomorrow"
            + (f"; today it is {current}" if current else ""),
        )
