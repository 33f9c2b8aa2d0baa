"""What must agree between the settings of the cluster targets, and what this machine can't hold of Minikube.

The former are problems; the latter concern the machine and not the settings: warnings at preview, which may run
elsewhere, and refused at `up`. Not here: what docker, minikube or a cluster say when asked.
"""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from infra.places.kubernetes import kubeconfig
from infra.settings.arms import measurement_of, without_arms_line
from infra.settings.checks import Check, path_of
from infra.settings.draft import Draft, Problem, set_line
from infra.settings.fit import GIB, RESERVED, Measurement, Size, arms_to_leave_out, cluster_fit, node_that_fits
from infra.settings.key import CLUSTER
from infra.settings.table import KEYS

_RESERVED_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def profile_of(draft: Draft) -> str:
    """The Minikube profile: as set, or named after project and stack."""
    return draft["minikubeProfile"] or f"{draft.facts.project}-{draft.facts.stack}"


def _namespace_is_ours(draft: Draft) -> Iterator[Problem]:
    if draft.target in CLUSTER and draft["namespace"] in _RESERVED_NAMESPACES:
        yield Problem(
            draft.shown("namespace"),
            f"any namespace but {', '.join(_RESERVED_NAMESPACES)}",
            (set_line("namespace", KEYS["namespace"].default),),
            why="everything in it is made, restricted and removed by this stack",
        )


def _profile_has_a_name(draft: Draft) -> Iterator[Problem]:
    rule, name = KEYS["minikubeProfile"].rule, profile_of(draft)
    if draft.target != "minikube":
        return
    try:
        rule.parse(name)
    except ValueError:
        usable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:58].strip("-")
        yield Problem(
            f"minikubeProfile = {name} (from project and stack)",
            rule.allowed,
            (set_line("minikubeProfile", usable),),
        )


def _image_is_known(draft: Draft) -> Iterator[Problem]:
    image, registry = draft["image"], draft["imageRegistry"]
    if draft.target != "kubernetes" or bool(image) != bool(registry):
        return
    if image:
        ways: tuple[str, ...] = ("pulumi config rm imageRegistry", "pulumi config rm image")
        why = "image is used as it is, imageRegistry has one built and pushed: only one can be meant"
    else:
        ways = tuple(set_line(key, KEYS[key].example) for key in ("image", "imageRegistry"))
        why = "the cluster pulls the training image from a registry; with imageRegistry it is built and pushed there"
    yield Problem(
        f"{draft.shown('image')} and {draft.shown('imageRegistry')}", "one of the two on target kubernetes", ways, why
    )


def _context_is_named(draft: Draft) -> Iterator[Problem]:
    if draft.target == "kubernetes" and not draft["kubeContext"]:
        path = path_of(draft, "kubeconfig")
        current = kubeconfig.current_context(str(path) if path else None)
        yield Problem(
            "kubeContext not set",
            f"{KEYS['kubeContext'].rule.allowed} on target kubernetes",
            (set_line("kubeContext", current or KEYS["kubeContext"].example),),
            why="a stack belongs to one cluster, and the current context may be another tomorrow"
            + (f"; today it is {current}" if current else ""),
        )


def _pull_secrets_exist(draft: Draft) -> Iterator[Problem]:
    if draft.target == "kubernetes" and draft["imagePullSecrets"] and draft["createNamespace"]:
        yield Problem(
            f"{draft.shown('imagePullSecrets')} with {draft.shown('createNamespace')}",
            "pull secrets of a namespace that exists",
            (set_line("createNamespace", "false"), "pulumi config rm imagePullSecrets"),
            why="a namespace made by this stack holds no pull secret, and the stack keeps none",
        )


def _chart_is_there(draft: Draft) -> Iterator[Problem]:
    chart = draft["kuberayChart"]
    is_path = "://" not in chart and ("/" in chart or chart.endswith(".tgz"))
    if draft.target in CLUSTER and draft["operator"] == "install" and is_path and not _exists(draft, "kuberayChart"):
        yield Problem(
            draft.shown("kuberayChart"),
            KEYS["kuberayChart"].rule.allowed,
            (set_line("kuberayChart", KEYS["kuberayChart"].default),),
            why=f"there is no file or folder {path_of(draft, 'kuberayChart')}",
        )


def _exists(draft: Draft, key: str) -> bool:
    path = path_of(draft, key)
    try:
        return path is not None and path.exists() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no permission on the way there, a name too long
        return False


def _network_is_there(draft: Draft) -> Iterator[Problem]:
    network = draft["minikubeCni"]
    if draft.target == "minikube" and network.endswith((".yaml", ".yml")) and not _exists(draft, "minikubeCni"):
        yield Problem(
            draft.shown("minikubeCni"),
            KEYS["minikubeCni"].rule.allowed,
            (set_line("minikubeCni", KEYS["minikubeCni"].default),),
            why=f"there is no file {str(path_of(draft, 'minikubeCni'))!r}, or it can't be read",
        )


CLUSTER_CHECKS = (
    Check(_namespace_is_ours, ("target", "namespace")),
    Check(_profile_has_a_name, ("target", "minikubeProfile")),
    Check(_image_is_known, ("target", "image", "imageRegistry")),
    Check(_context_is_named, ("target", "kubeContext", "kubeconfig")),
    Check(_pull_secrets_exist, ("target", "imagePullSecrets", "createNamespace")),
    Check(_network_is_there, ("target", "minikubeCni")),
    Check(_chart_is_there, ("target", "operator", "kuberayChart")),
)


@dataclass(frozen=True)
class Unfit:
    """What Minikube's nodes or this machine can't hold, and the command lines of which each is a way out."""

    what: str
    ways: tuple[str, ...]
    liftable: bool = False
    """Whether `allowOversubscription` makes it a warning."""

    def __str__(self) -> str:
        helps = "any of these helps" if len(self.ways) > 1 else "this helps"
        return "\n  ".join([f"{self.what}; {helps}:", *self.ways])


def unfit(draft: Draft) -> list[Unfit]:
    """What does not fit on target minikube; nothing for other targets."""
    if draft.target != "minikube":
        return []
    asked, count = measurement_of(draft), draft["minikubeNodes"]
    node = Size(draft["minikubeCpus"], draft["minikubeMemory"].bytes)
    return [*_unfit_nodes(asked, node, count), *_unfit_cores(draft, asked, node), *_unfit_memory(draft, asked, node)]


def _unfit_nodes(asked: Measurement, node: Size, count: int) -> Iterator[Unfit]:
    """What the scheduler could not place."""
    arms = cluster_fit(asked, [node] * count)
    if arms:
        larger = _size_lines(node, node_that_fits(asked, count, node))
        fewer = arms_to_leave_out(asked, lambda smaller: not cluster_fit(smaller, [node] * count))
        yield Unfit(
            f"the pods of {' and '.join(arms)}, beside a Ray cluster of {asked.workers} workers, do not fit"
            f" {count} nodes of {node}, of which {RESERVED} each are kept for the system",
            (*without_arms_line(fewer), larger),
        )


def _size_lines(node: Size, larger: Size) -> str:
    cpus = [set_line("minikubeCpus", f"{larger.cpus:g}")] if larger.cpus > node.cpus else []
    more = larger.memory_bytes > node.memory_bytes
    memory = [set_line("minikubeMemory", f"{larger.memory_bytes // GIB}Gi")] if more else []
    return " && ".join([*cpus, *memory])


def _unfit_cores(draft: Draft, asked: Measurement, node: Size) -> Iterator[Unfit]:
    """What would share this machine's physical cores: each node reports all of them as its own."""
    count, cores = draft["minikubeNodes"], draft.facts.physical_cores
    needed = math.ceil(max(asked.most(count).cpus - 1e-9, node.cpus))
    if needed > cores:
        fewer = arms_to_leave_out(asked, lambda smaller: max(smaller.most(count).cpus, node.cpus) <= cores)
        yield Unfit(
            f"{asked.workers} workers and the pods beside them need a machine with {needed} physical cores,"
            f" and this one has {cores}",
            (*without_arms_line(fewer), set_line("allowOversubscription", "true")),
            liftable=True,
        )


def _unfit_memory(draft: Draft, asked: Measurement, node: Size) -> Iterator[Unfit]:
    """What would not fit this machine's memory, which nothing lifts."""
    count, memory = draft["minikubeNodes"], draft.facts.memory_bytes
    needed = max(asked.most(count).memory_bytes, node.memory_bytes)
    if needed > memory:
        fewer = arms_to_leave_out(
            asked, lambda smaller: max(smaller.most(count).memory_bytes, node.memory_bytes) <= memory
        )
        yield Unfit(
            f"{asked.workers} workers and the pods beside them need a machine with {math.ceil(needed / GIB)} GiB"
            f" of memory, and this one has {math.floor(memory / GIB)}",
            (*without_arms_line(fewer), set_line("target", "local")),
        )
