"""GPUs of the pods that train, and the nodes that have them. Pure: dicts, no Pulumi.

Pods without a GPU, as those of Ray's head, the operator and the submitter, stay off the nodes that have GPUs: they
would take CPUs from what trains there, and occupy a node that costs many times as much as theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.settings.cluster import ClusterSettings
from infra.settings.pod_template import REQUIRED
from infra.settings.rules import PodTemplate

CAPABILITIES = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
"""The parts of the driver that NVIDIA's runtime puts into a container: CUDA, and the library that observes a GPU."""


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """The GPUs of each pod that trains."""

    number: int
    resource: str
    template: PodTemplate = field(default_factory=PodTemplate)
    """What the user sets for all pods, together with what sends pods to nodes with GPUs (selector, tolerations, runtime
    class)."""

    def given_to(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pod's spec with the GPUs added to its only container."""
        (main,) = pod["containers"]
        amount = {self.resource: str(self.number)}
        resources = {name: {**amounts, **amount} for name, amounts in main["resources"].items()}
        variables = [{"name": name, "value": value} for name, value in CAPABILITIES.items()]
        return {**pod, "containers": [{**main, "resources": resources, "env": [*main.get("env", ()), *variables]}]}


def of_workers(number: int, cluster: ClusterSettings) -> Gpus:
    """Return the GPUs of each worker, `number` of them, in a cluster with these settings."""
    template = cluster.pod_template
    usual = ({"key": cluster.gpu_resource, "operator": "Exists"},)
    tolerations = usual if cluster.gpu_tolerations is None else cluster.gpu_tolerations
    spec = dict(template.spec)
    if tolerations:
        spec["tolerations"] = [*spec.get("tolerations", ()), *map(dict, tolerations)]
    if cluster.gpu_node_selector:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **cluster.gpu_node_selector}
    if cluster.runtime_class:
        spec["runtimeClassName"] = cluster.runtime_class
    placed = PodTemplate(template.labels, template.annotations, spec)
    return Gpus(number=number, resource=cluster.gpu_resource, template=placed)


def kept_off(template: PodTemplate, labels: Mapping[str, str]) -> PodTemplate:
    """Return the template for pods without a GPU, changed so that they run on no node that has all these labels.

    The terms of an affinity are alternatives, so each of the user's terms is repeated for each label that a node may
    lack.
    """
    if not labels:
        return template
    lacks = [{"key": name, "operator": "NotIn", "values": [value]} for name, value in sorted(labels.items())]
    affinity = dict(template.spec.get("affinity", {}))
    of_nodes = dict(affinity.get("nodeAffinity", {}))
    terms = of_nodes.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    of_nodes[REQUIRED] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*term.get("matchExpressions", ()), each]} for term in terms for each in lacks
        ]
    }
    spec = {**template.spec, "affinity": {**affinity, "nodeAffinity": of_nodes}}
    return PodTemplate(template.labels, template.annotations, spec)
