"""How the program reaches its cluster: one explicit provider, and the options that every resource in it carries.

The provider's kubeconfig is the path to a file. On Minikube the start command writes it: a preview is right without it,
and no key enters the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

NAME = "cluster"


def kubeconfig_path(stack: str) -> str:
    """The ignored file with which a stack's Minikube cluster is reached, from the project's folder."""
    return str(Path(".state", "kubeconfig", stack))


@dataclass(frozen=True)
class Access:
    """A cluster to make things in."""

    provider: k8s.Provider
    namespace: str
    kubeconfig: str
    """Path, from the project's folder; empty: the standard rules."""
    context: str | None
    cluster: pulumi.Resource | None
    """What made the cluster, if this stack did: with it, everything in the cluster goes."""

    def options(self, parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
        """Options of a resource in the cluster."""
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, deleted_with=self.cluster, **more)

    def metadata(self, annotations: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Metadata of an object in the namespace, a dict (Any: pulumi_kubernetes types each kind's by itself).

        In a cluster of our own, what an interrupted `up` left is taken up again; elsewhere nothing is taken over.
        """
        own = {"pulumi.com/patchForce": "true"} if self.cluster is not None else {}
        chosen = {**own, **(annotations or {})}
        return {"namespace": self.namespace, **({"annotations": chosen} if chosen else {}), **more}


def minikube_access(
    namespace: str, kubeconfig: str, profile: str, cluster: pulumi.Resource, parent: pulumi.Resource
) -> Access:
    """Access to the Minikube cluster that `cluster` starts."""
    provider = k8s.Provider(
        NAME,
        kubeconfig=kubeconfig,
        context=profile,
        cluster_identifier=profile,
        upsert_existing_objects=True,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[cluster]),
    )
    return Access(provider, namespace, kubeconfig, profile, cluster)


def existing_access(
    namespace: str, kubeconfig: str | None, context: str | None, identifier: str, parent: pulumi.Resource
) -> Access:
    """Access to a cluster that exists; `identifier` names it, and a change of it replaces everything in it."""
    provider = k8s.Provider(
        NAME,
        kubeconfig=kubeconfig,
        context=context,
        cluster_identifier=identifier,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    return Access(provider, namespace, kubeconfig or "", context, None)
