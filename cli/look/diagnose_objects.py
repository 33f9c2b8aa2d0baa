"""The part of a cluster's objects that is shown to others: this project's own ones, field by field.

What is shown is listed here; nothing else leaves the cluster. Environments, arguments, annotations, mounted files and
what a container printed may hold secrets, and are not in the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from infra.places.cluster.manifests.operator import RELEASE
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL, RUN_LABEL
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS, NAME
from infra.settings.cluster import ClusterSettings

_INSTANCE = "app.kubernetes.io/instance"
_CONDITIONS = [{"type": True, "status": True, "reason": True, "lastTransitionTime": True}]
_METADATA = {
    "name": True,
    "creationTimestamp": True,
    "deletionTimestamp": True,
    "labels": dict.fromkeys((PROJECT_LABEL, RUN_LABEL, _INSTANCE, "ray.io/cluster", "ray.io/group"), True),
}
_RESOURCES = {"requests": "*", "limits": "*"}
_CONTAINER = {"name": True, "image": True, "resources": _RESOURCES}
_POD = {
    "nodeName": True,
    "nodeSelector": "*",
    "tolerations": [{"key": True, "operator": True, "effect": True}],
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
}
_ENDED = {"reason": True, "exitCode": True, "signal": True, "startedAt": True, "finishedAt": True}
_STATE = {"waiting": {"reason": True}, "running": {"startedAt": True}, "terminated": _ENDED}
_CONTAINER_STATUS = [
    {"name": True, "ready": True, "restartCount": True, "imageID": True, "state": _STATE, "lastState": _STATE}
]
_COUNTS = {"replicas": True, "readyReplicas": True, "updatedReplicas": True, "unavailableReplicas": True}
SHOWN: dict[str, dict[str, Any]] = {
    "nodes": {
        "metadata": {"name": True, "creationTimestamp": True},
        "spec": {"taints": [{"key": True, "effect": True}], "unschedulable": True},
        "status": {
            "capacity": "*",
            "allocatable": "*",
            "conditions": _CONDITIONS,
            "nodeInfo": dict.fromkeys(
                ("architecture", "containerRuntimeVersion", "kernelVersion", "kubeletVersion", "osImage"), True
            ),
        },
    },
    "pods": {
        "metadata": _METADATA,
        "spec": _POD,
        "status": {
            "phase": True,
            "reason": True,
            "startTime": True,
            "conditions": _CONDITIONS,
            "initContainerStatuses": _CONTAINER_STATUS,
            "containerStatuses": _CONTAINER_STATUS,
        },
    },
    "services": {
        "metadata": _METADATA,
        "spec": {"type": True, "clusterIP": True, "ports": [{"name": True, "port": True, "nodePort": True}]},
    },
    "deployments": {
        "metadata": _METADATA,
        "spec": {"replicas": True, "template": {"spec": _POD}},
        "status": _COUNTS | {"conditions": _CONDITIONS},
    },
    "replicasets": {"metadata": _METADATA, "spec": {"replicas": True}, "status": _COUNTS},
    "jobs": {
        "metadata": _METADATA,
        "spec": {"completions": True, "parallelism": True, "activeDeadlineSeconds": True, "template": {"spec": _POD}},
        "status": {
            **dict.fromkeys(("active", "ready", "succeeded", "failed", "startTime", "completionTime"), True),
            "conditions": _CONDITIONS,
        },
    },
    "networkpolicies": {"metadata": _METADATA, "spec": {"policyTypes": [True]}},
    "rayclusters": {
        "metadata": _METADATA,
        "spec": {
            "rayVersion": True,
            "headGroupSpec": {"template": {"spec": _POD}},
            "workerGroupSpecs": [{"groupName": True, "replicas": True, "template": {"spec": _POD}}],
        },
        "status": {
            "state": True,
            "desiredWorkerReplicas": True,
            "readyWorkerReplicas": True,
            "availableWorkerReplicas": True,
            "lastUpdateTime": True,
            "conditions": _CONDITIONS,
        },
    },
}
"""The fields that are shown, by kind: True for a value, `*` for all of a mapping, a list for each of its entries."""
TOLD = ("BackOff", "Evicted", "FailedScheduling", "Preempted")
"""Reasons of events whose messages come from the scheduler or the kubelet. Other messages may quote a program, a driver
or a registry's answer."""
HIDDEN = "[not shown]"
_USER = re.compile(r"@(?!sha256:[0-9a-f]{64}\b)")
"""Matches the `@` after a user or a password in an address, but not the `@` before an image's digest."""

_CONTROLLERS = ("deployments", "replicasets", "jobs", "rayclusters")
"""Kinds of objects that create pods. The name of such a pod begins with the object's name."""


def shown(fields: Any, value: Any) -> Any:
    """Return the part of an object that `fields` names."""
    match fields, value:
        case dict(), dict():
            return {name: shown(field, value[name]) for name, field in fields.items() if value.get(name) is not None}
        case list(), list():
            return [shown(fields[0], entry) for entry in value]
        case "*", dict():
            return {name: plain(entry) for name, entry in value.items() if isinstance(entry, (str, int, float))}
        case True, str() | int() | float():
            return plain(value)
    return None


def plain(value: Any) -> Any:
    """Return the value, or a placeholder if it is an address that contains a user."""
    return HIDDEN if isinstance(value, str) and _USER.search(value) else value


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event as `kubectl get events` has it, without its message if another program may have written it."""
    about, when = event["involvedObject"], event.get("lastTimestamp") or event.get("eventTime") or "–"
    reason = event.get("reason")
    message = f": {plain(event.get('message'))}" if reason in TOLD else ""
    return f"{when} {event.get('type')} {reason} {about.get('kind')}/{about.get('name')}{message}"


class Ours:
    """Selects this project's objects, and remembers their names to recognise the events of objects that are gone."""

    def __init__(self, settings: ClusterSettings | None) -> None:
        self._installs_operator = settings is not None and settings.operator == "install"
        self._names: set[str] = set()
        self._makers: set[str] = set()

    def of(self, kind: str, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the objects of a list that are this project's."""
        chosen = [item for item in items if self._is_ours(kind, item)]
        names = {str(item["metadata"]["name"]) for item in chosen}
        self._names |= names
        self._makers |= names if kind in _CONTROLLERS else set()
        return chosen

    def has(self, name: str) -> bool:
        """Return whether a name belongs to an object selected earlier, or to a pod that such an object created."""
        return name in self._names or any(name.startswith(f"{maker}-") for maker in self._makers)

    def _is_ours(self, kind: str, item: Mapping[str, Any]) -> bool:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        template = ((item.get("spec") or {}).get("template") or {}).get("metadata") or {}
        if PROJECT in (labels.get(PROJECT_LABEL), (template.get("labels") or {}).get(PROJECT_LABEL)):
            return True
        if labels.items() >= CLUSTER_LABELS.items():  # KubeRay's Service and Secret of our RayCluster
            return True
        if (kind, metadata["name"]) == ("rayclusters", NAME):
            return True
        helms = labels.get("owner") == "helm" and labels.get("name") == RELEASE
        return self._installs_operator and (labels.get(_INSTANCE) == RELEASE or helms)
