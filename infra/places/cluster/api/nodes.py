"""The resources of a cluster's nodes, as the API server writes them, and the conditions for pods to use them. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from infra.places.cluster.fit import Size
from infra.settings.pod_template import REQUIRED
from infra.settings.rules import PodTemplate


def allocatable(node: Mapping[str, Any], gpu_resource: str = "") -> Size:
    """Return the node's allocatable CPUs and memory, and its GPUs if `gpu_resource` names their resource."""
    from kubernetes.utils import parse_quantity

    amounts = node["status"]["allocatable"]
    return Size(float(parse_quantity(amounts["cpu"])), int(parse_quantity(amounts["memory"])), gpus(node, gpu_resource))


def gpus(node: Mapping[str, Any], resource: str) -> int:
    """Return the number of GPUs that a node offers under this resource name."""
    return int(node["status"]["allocatable"].get(resource, 0))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether the node's kubelet reports that pods can run."""
    conditions = node["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def usable(node: Mapping[str, Any], template: PodTemplate) -> bool:
    """Return whether the scheduler may place the project's pods on a node: it is ready, not cordoned and selected, and
    the pods tolerate its taints."""
    spec, labels = node["spec"], node["metadata"].get("labels") or {}
    selector, tolerations = template.spec.get("nodeSelector", {}), template.spec.get("tolerations", ())
    taints = [taint for taint in spec.get("taints") or [] if taint["effect"] in ("NoSchedule", "NoExecute")]
    tolerated = all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)
    selected = selector.items() <= labels.items() and _has_affinity(node["metadata"]["name"], labels, template)
    return is_ready(node) and not spec.get("unschedulable") and selected and tolerated


def _has_affinity(name: str, labels: Mapping[str, str], template: PodTemplate) -> bool:
    """Return whether a node matches a term of the required node affinity. True if the template requires no node
    affinity.

    All requirements of a term have to match; an empty term matches no node. Source:
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity.
    """
    affinity = template.spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get(REQUIRED)
    if required is None:
        return True
    return any(
        all(meets(labels, each) for each in term.get("matchExpressions", ()))
        and all(meets({"metadata.name": name}, each) for each in term.get("matchFields", ()))
        for term in required["nodeSelectorTerms"]
        if term.get("matchExpressions") or term.get("matchFields")
    )


def meets(labels: Mapping[str, str], requirement: Mapping[str, Any]) -> bool:
    """Return whether a node's labels meet a requirement of a node affinity. With Gt or Lt, a label that is not a whole
    number never meets the requirement."""
    operator, label = str(requirement["operator"]), labels.get(requirement["key"])
    values: list[str] = requirement.get("values", [])
    if operator in ("Exists", "DoesNotExist"):
        return (label is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (label in values) == (operator == "In")
    if label is None or not re.fullmatch(r"[+-]?\d+", label, re.ASCII):
        return False
    return int(label) > int(values[0]) if operator == "Gt" else int(label) < int(values[0])


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Return whether a toleration matches a taint. Source:
    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")
