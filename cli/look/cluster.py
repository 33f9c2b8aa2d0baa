"""Where the cluster of a stack is, and why it cannot be asked: for commands that look at it outside an update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.setup.project import CLUSTER_TARGETS, ROOT, ToolError
from cli.stack import settings as stack_settings
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.place import ClusterPlace
from infra.places.place import cluster_of
from infra.settings.cluster import ClusterSettings
from infra.settings.settings import Settings
from training.machine.command_line import rwi


@dataclass(frozen=True)
class StackCluster:
    """A stack that has a Kubernetes cluster, and how the cluster is reached."""

    stack: str
    settings: Settings
    cluster: ClusterSettings
    place: ClusterPlace
    kubeconfig: str
    """The path of the stack's own kubeconfig file, relative to the project's folder."""

    @property
    def namespace(self) -> str:
        """Return the namespace that holds everything of the stack."""
        return self.cluster.namespace

    @property
    def name(self) -> str:
        """Return the cluster's name as it is shown to users."""
        return self.place.name(self.settings)

    @property
    def kubectl(self) -> str:
        """Return the beginning of a kubectl command about the stack's namespace."""
        return f"kubectl --kubeconfig={self.kubeconfig} --namespace={self.namespace}"


def find(stack: str, overrides: Mapping[str, str]) -> StackCluster:
    """Return the cluster that a stack's settings name. Raise ToolError if they name none, or are wrong."""
    settings = stack_settings.load(stack, overrides)
    if settings.cluster is None:
        raise ToolError(
            f"stack {stack} has target {settings.target}, and no cluster of Kubernetes; those with target"
            f" {' and '.join(CLUSTER_TARGETS)} have one, as stack minikube has it\n"
            f"  to follow a running `up` of it:  {rwi('status --watch', stack)}"
        )
    return StackCluster(stack, settings, settings.cluster, cluster_of(settings.target), kube.own_path(stack))


def client_of_made(stack_cluster: StackCluster) -> Any:
    """Return a client, without a request; None before the first `up`. Raise ToolError for a bad kubeconfig."""
    if not (ROOT / stack_cluster.kubeconfig).is_file():
        return None
    try:
        return kube.connect(stack_cluster.kubeconfig)
    except KubeError as error:
        raise ToolError(f"stack {stack_cluster.stack}: {error}") from None


def connect(stack_cluster: StackCluster) -> Any:
    """Return a client of a cluster that answers. Raise ToolError that says why it does not, and what to type."""
    api = client_of_made(stack_cluster)
    if api is None:
        raise ToolError(
            f"stack {stack_cluster.stack}: there is no {stack_cluster.kubeconfig} yet:"
            f"  {rwi('up', stack_cluster.stack)}"
        )
    try:
        kube.get(api, "/version")
    except KubeError as error:
        why = stack_cluster.place.why_down(stack_cluster.settings)
        raise ToolError(f"stack {stack_cluster.stack}: " + "\n".join(filter(None, [why, str(error)]))) from None
    return api
