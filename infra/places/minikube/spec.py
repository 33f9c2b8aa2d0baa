"""What the commands of a Minikube cluster are told, as environment variables. Pure: starts nothing."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from infra.places.cluster.kube import own_path
from infra.settings.settings import Settings

MIB = 2**20
VARIABLE = "MINIKUBE_CLUSTER"
"""Environment variable with a `Cluster` as JSON: one value, quoted by nobody."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Minikube cluster as the settings want it."""

    stack: str
    profile: str
    kubeconfig: str
    nodes: int
    cpus: int
    memory_mib: int
    version: str
    cni: str
    addons: tuple[str, ...]
    images: tuple[str, ...]
    """Of this machine's engine, loaded into every node before anything is installed."""

    def environment(self) -> dict[str, str]:
        """The environment of the cluster's commands."""
        return {VARIABLE: json.dumps(asdict(self), sort_keys=True)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Cluster":
        """The cluster that the environment describes."""
        return cls.from_dict(json.loads(environment[VARIABLE]))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Cluster":
        """The cluster of a dict as `asdict` makes it, or as JSON brings it back."""
        return cls(**data | {"addons": tuple(data["addons"]), "images": tuple(data["images"])})

    def start_command(self) -> list[str]:
        """The command that makes the cluster, or takes it up again."""
        command = [
            *(
                "minikube",
                "start",
                "--profile",
                self.profile,
                "--driver",
                "docker",
                "--container-runtime",
                "containerd",
            ),
            *("--nodes", str(self.nodes), "--cpus", str(self.cpus), "--memory", f"{self.memory_mib}mb"),
            *("--kubernetes-version", self.version, "--cni", self.cni),
            *("--embed-certs", "--keep-context=false", "--interactive=false", "--wait", "all"),
        ]
        return [*command, *(["--addons", ",".join(self.addons)] if self.addons else [])]


def wanted_cluster(settings: Settings) -> Cluster:
    """The cluster that the settings want."""
    wanted = settings.of_cluster
    return Cluster(
        stack=settings.stack,
        profile=wanted.minikube_profile,
        kubeconfig=own_path(settings.stack),
        nodes=wanted.minikube_nodes,
        cpus=wanted.minikube_cpus,
        memory_mib=wanted.minikube_memory.bytes // MIB,
        version=wanted.kubernetes_version,
        cni=wanted.minikube_cni,
        addons=wanted.minikube_addons,
        images=wanted.preload_images,
    )


FIXED = {
    "cpus": "minikubeCpus",
    "memory_mib": "minikubeMemory",
    "version": "kubernetesVersion",
    "cni": "minikubeCni",
    "profile": "minikubeProfile",
}
"""Fields that Minikube can't change of a cluster that exists, and their config keys."""


def unchangeable(existing: Cluster, wanted: Cluster) -> list[str]:
    """What of `wanted` can be had by making the cluster anew only: a phrase each."""
    changes = [
        f"{key} {getattr(existing, name)} → {getattr(wanted, name)}"
        for name, key in FIXED.items()
        if getattr(existing, name) != getattr(wanted, name)
    ]
    if wanted.nodes < existing.nodes:
        changes.append(f"minikubeNodes {existing.nodes} → {wanted.nodes} (more nodes can be added, none taken away)")
    return changes
