"""The description of a Minikube cluster for its commands, as an environment variable. Pure: starts nothing."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from infra.places.cluster.api.kube import own_path
from infra.settings.settings import Settings

MIB = 2**20
KUBERNETES = "v1.34.4"
"""The version of Kubernetes with which this program is tested."""
VARIABLE = "MINIKUBE_CLUSTER"
"""The environment variable that holds a `Cluster` as JSON, a single value that needs no quoting."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Minikube cluster as the settings describe it."""

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
    """Images of this machine's Docker that are loaded into every node before anything is installed."""
    gpus: int = 0
    """The number of this machine's GPUs that the only node offers; 0 for none."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables for the commands that manage the cluster."""
        described = asdict(self)
        if not self.gpus:
            del described["gpus"]  # a cluster that was made before there was such a field stays as it is
        return {VARIABLE: json.dumps(described, sort_keys=True)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Cluster":
        """Return the cluster that the environment describes."""
        return cls.from_dict(json.loads(environment[VARIABLE]))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Cluster":
        """Return the cluster from a dict as `asdict` returns it, or as JSON decodes it."""
        return cls(**data | {"addons": tuple(data["addons"]), "images": tuple(data["images"])})

    def start_command(self) -> list[str]:
        """Return the command that creates or starts the cluster."""
        command = [
            *(
                "minikube",
                "start",
                "--profile",
                self.profile,
                "--driver",
                "docker",
                "--container-runtime",
                "docker" if self.gpus else "containerd",  # Minikube gives a node GPUs with Docker's alone
                *(("--gpus", "nvidia") if self.gpus else ()),
            ),
            *("--nodes", str(self.nodes), "--cpus", str(self.cpus), "--memory", f"{self.memory_mib}mb"),
            *("--kubernetes-version", self.version, "--cni", self.cni),
            *("--embed-certs", "--keep-context=false", "--interactive=false", "--wait", "all"),
        ]
        return [*command, *(["--addons", ",".join(self.addons)] if self.addons else [])]


def wanted_cluster(settings: Settings) -> Cluster:
    """Return the cluster that the settings describe."""
    wanted = settings.of_cluster
    return Cluster(
        stack=settings.stack,
        profile=wanted.minikube_profile,
        kubeconfig=own_path(settings.stack),
        nodes=wanted.minikube_nodes,
        cpus=wanted.minikube_cpus,
        memory_mib=wanted.minikube_memory.bytes // MIB,
        version=KUBERNETES,
        cni=wanted.offline.network,
        addons=wanted.offline.addons,
        images=wanted.offline.images,
        gpus=wanted.minikube_gpus,
    )


FIXED = {
    "cpus": "minikubeCpus",
    "memory_mib": "minikubeMemory",
    "version": "Kubernetes",
    "cni": "pod network",
    "gpus": "minikubeGpus",
    "profile": "minikubeProfile",
}
"""The fields that Minikube cannot change in an existing cluster, each with its config key or a word for it."""


def unchangeable(existing: Cluster, wanted: Cluster) -> list[str]:
    """Return the differences for which the cluster has to be recreated, each as a phrase."""
    changes = [
        f"{key} {getattr(existing, name)} → {getattr(wanted, name)}"
        for name, key in FIXED.items()
        if getattr(existing, name) != getattr(wanted, name)
    ]
    if wanted.nodes < existing.nodes:
        changes.append(f"minikubeNodes {existing.nodes} → {wanted.nodes} (more nodes can be added, none taken away)")
    return changes
