"""Recognises this project's objects in a namespace: by the labels that it sets, never by where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.places.cluster.manifests.operator import RELEASE
from infra.places.cluster.manifests.pod_parts import PROJECT, PROJECT_LABEL
from infra.places.cluster.manifests.ray_cluster import CLUSTER_LABELS, NAME, TOKEN_SECRET
from infra.settings.settings import ClusterSettings

_INSTANCE = "app.kubernetes.io/instance"
_CONTROLLERS = ("deployments", "replicasets", "jobs", "rayclusters")
"""Kinds that create pods, whose names begin with theirs."""


class Ours:
    """Picks this project's objects, and remembers their names for the events of objects that are gone."""

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
        """Return whether a name is that of an object picked before, or of a pod that it created."""
        return name in self._names or any(name.startswith(f"{maker}-") for maker in self._makers)

    def _is_ours(self, kind: str, item: Mapping[str, Any]) -> bool:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        template = ((item.get("spec") or {}).get("template") or {}).get("metadata") or {}
        if PROJECT in (labels.get(PROJECT_LABEL), (template.get("labels") or {}).get(PROJECT_LABEL)):
            return True
        if labels.items() >= CLUSTER_LABELS.items():  # KubeRay's Service and Secret of our RayCluster
            return True
        if (kind, metadata["name"]) in (("rayclusters", NAME), ("secrets", TOKEN_SECRET)):
            return True
        helms = labels.get("owner") == "helm" and labels.get("name") == RELEASE
        return self._installs_operator and (labels.get(_INSTANCE) == RELEASE or helms)
