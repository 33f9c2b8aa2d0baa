"""The resources of a cluster's nodes, and the conditions for pods to use them. Pure: nodes as the API server writes
them."""

from collections.abc import Iterable, Mapping
from typing import Any

from infra.places.cluster.fit import Size


def allocatable(node: Mapping[str, Any]) -> Size:
    """Return the node's allocatable CPUs and memory."""
    from kubernetes.utils import parse_quantity

    amounts = node["status"]["allocatable"]
    return Size(float(parse_quantity(amounts["cpu"])), int(parse_quantity(amounts["memory"])))


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether the node's kubelet reports that pods can run."""
    conditions = node["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def usable(node: Mapping[str, Any], selector: Mapping[str, str], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the scheduler may place our pods on a node: ready, not cordoned, selected, its taints
    tolerated."""
    spec, labels = node["spec"], node["metadata"].get("labels") or {}
    taints = [taint for taint in spec.get("taints") or [] if taint["effect"] in ("NoSchedule", "NoExecute")]
    tolerated = all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints)
    return is_ready(node) and not spec.get("unschedulable") and selector.items() <= labels.items() and tolerated


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """Return whether a toleration matches a taint:
    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")
