"""Which nodes of an existing cluster hold the pods with a GPU, and which the others. Pure: nodes as the API server
writes them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from infra.places.cluster.api.nodes import allocatable, gpus, usable
from infra.places.cluster.fit import Measurement, Size, gpu_lines
from infra.places.cluster.manifests.gpus import kept_off, of_workers
from infra.settings.problem import Problem, set_line
from infra.settings.sections import ON
from infra.settings.settings import Settings

REMOVE = "pulumi config rm workerGpus"
LIST_GPUS = "kubectl get nodes -o custom-columns=NAME:.metadata.name,ALLOCATABLE:.status.allocatable"


def offered(nodes: Iterable[Mapping[str, Any]], settings: Settings) -> dict[str, Size]:
    """Return what each node that the stack's pods may use offers to them, by the node's name."""
    cluster = settings.of_cluster
    template, number = cluster.pod_template, settings.recipe.worker_gpus
    if not number:
        return {_name(node): allocatable(node) for node in nodes if usable(node, template)}
    wanted, without = of_workers(number, cluster), kept_off(template, cluster.gpu_node_selector)
    return {
        _name(node): allocatable(node, wanted.resource)
        for node in nodes
        if usable(node, wanted.template if gpus(node, wanted.resource) else without)
    }


def open_to_others(nodes: Sequence[Mapping[str, Any]], settings: Settings) -> Iterator[Problem]:
    """Yield a problem if Ray's head could run on a node with GPUs: the node has no taint that the head does not
    tolerate, and `gpuNodeSelector` names no label of it."""
    cluster = settings.of_cluster
    if not settings.recipe.worker_gpus:
        return
    others, resource = kept_off(cluster.pod_template, cluster.gpu_node_selector), cluster.gpu_resource
    have_gpus = [node for node in nodes if gpus(node, resource)]
    names = [_name(node) for node in have_gpus if usable(node, others)]
    if names:
        label = _label_of(have_gpus, [node for node in nodes if node not in have_gpus])
        yield Problem(
            f"Ray's head could run on a node with GPUs ({', '.join(sorted(names))}): it has no taint that the head does"
            " not tolerate, and gpuNodeSelector names no label of it",
            fixes=(
                *([set_line("gpuNodeSelector", label)] if label else []),
                f"kubectl taint nodes {' '.join(sorted(names))} {resource}=present:NoSchedule",
                set_line("allowOversubscription", ON),
            ),
            liftable=True,
        )


def _label_of(have_gpus: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> str:
    """Return a label, as `name=value`, that all nodes with GPUs and no other node have; empty without one."""
    common = set.intersection(*(set(_labels(node).items()) for node in have_gpus))
    alone = sorted(common.difference(*(_labels(node).items() for node in others)))
    return "=".join(next((pair for pair in alone if pair[0] != "kubernetes.io/hostname"), ()))


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def ways(measurement: Measurement, nodes: Sequence[Size]) -> tuple[str, ...]:
    """Return the command lines that help in a cluster with too few GPUs."""
    return (*gpu_lines(measurement, nodes), LIST_GPUS, REMOVE)


def _name(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["name"])
