"""How the program reaches its cluster: one explicit provider, and the options that every resource in it carries.

The provider's kubeconfig is the path to a file of the stack's own. On Minikube the start command writes it, elsewhere
`infra.places.kubernetes.pinned_cluster`: a preview is right without it, no key enters the state, and the user's
contexts may change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster.pod_spec import PROJECT, PROJECT_LABEL
from infra.places.kubernetes import kubeconfig
from infra.places.kubernetes.pinned_cluster import PinnedCluster

NAME = "cluster"
IDENTIFIER = "the cluster of this stack"


@dataclass(frozen=True)
class Access:
    """A cluster to make things in."""

    provider: k8s.Provider
    namespace: str
    kubeconfig: str
    """Path of the stack's own file, from the project's folder."""
    cluster: pulumi.Resource | None
    """What made the cluster, if this stack did: with it, everything in the cluster goes."""
    pinned: PinnedCluster | None = None
    """Which cluster it is, if this stack did not make it."""

    def options(self, parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
        """Options of a resource in the cluster."""
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, deleted_with=self.cluster, **more)

    def metadata(self, annotations: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Metadata of an object in the namespace, a dict (Any: pulumi_kubernetes types each kind's by itself).

        In a cluster of our own, what an interrupted `up` left is taken up again; elsewhere nothing is taken over.
        """
        own = {"pulumi.com/patchForce": "true"} if self.cluster is not None else {}
        chosen = {**own, **(annotations or {})}
        labels = {PROJECT_LABEL: PROJECT, **more.pop("labels", {})}
        return {"namespace": self.namespace, "labels": labels, **({"annotations": chosen} if chosen else {}), **more}


def minikube_access(stack: str, namespace: str, cluster: pulumi.Resource, parent: pulumi.Resource) -> Access:
    """Access to the Minikube cluster that `cluster` starts, and of which it writes the kubeconfig."""
    provider = _provider(stack, cluster, parent, take_over=True)
    return Access(provider, namespace, kubeconfig.path_of(stack), cluster)


def existing_access(stack: str, namespace: str, setting: str | None, context: str, parent: pulumi.Resource) -> Access:
    """Access to the cluster that a context of the user's kubeconfig leads to: that one, as long as the stack lives."""
    pinned = PinnedCluster(stack, setting, context, pulumi.ResourceOptions(parent=parent))
    provider = _provider(stack, pinned, parent, take_over=False)
    return Access(provider, namespace, kubeconfig.path_of(stack), None, pinned)


def _provider(stack: str, way: pulumi.Resource, parent: pulumi.Resource, *, take_over: bool) -> k8s.Provider:
    """One that reaches what the stack's own kubeconfig says, and nothing when that is lost.

    `destroy` and `refresh` run no program: the engine configures the provider with the inputs that it recorded here.
    What is not given would come from variables of the environment.
    """
    return k8s.Provider(
        NAME,
        kubeconfig=kubeconfig.path_of(stack),
        # Constant: when it changes, everything is made anew, and the old is deleted through what the path means now.
        cluster_identifier=IDENTIFIER,
        # A cluster that does not answer is no reason to forget what is in it, or to call it updated.
        delete_unreachable=False,
        skip_update_unreachable=False,
        upsert_existing_objects=take_over,
        enable_patch_force=False,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[way]),
    )
