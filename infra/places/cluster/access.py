"""How the program reaches its cluster: one explicit provider, and the options that every resource in it carries.

The provider's kubeconfig is the path to a file of the stack's own, which the place writes, by a resource: a preview is
right without it, no key enters the state, and the user's contexts may change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.image.training_image import Nodes
from infra.places.cluster import kube
from infra.places.cluster.place import Traits
from infra.places.cluster.pod_spec import PROJECT, PROJECT_LABEL

NAME = "cluster"
IDENTIFIER = "the cluster of this stack"


@dataclass(frozen=True, kw_only=True)
class Access:
    """A cluster to make things in."""

    provider: k8s.Provider
    namespace: str
    kubeconfig: str
    """Path of the stack's own file, from the project's folder."""
    traits: Traits
    cluster: pulumi.Resource | None = None
    """What makes the cluster, where the stack does: with it, everything in the cluster goes."""
    nodes: Nodes | None = None
    """Nodes that take images from this machine's engine; without them an image comes from its registry."""
    address: pulumi.Output[str] | None = None
    """A node's, as this machine reaches it."""
    guard: Callable[[Sequence[pulumi.Resource], pulumi.Resource], object] | None = None
    """Makes, after these and as a child of that, what is deleted before anything else of the stack is."""

    def options(self, parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
        """Options of a resource in the cluster."""
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, deleted_with=self.cluster, **more)

    def metadata(self, annotations: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Metadata of an object in the namespace, a dict (Any: pulumi_kubernetes types each kind's by itself).

        In a cluster of our own, what an interrupted `up` left is taken up again; elsewhere nothing is taken over.
        """
        own = {"pulumi.com/patchForce": "true"} if self.traits.owned else {}
        chosen = {**own, **(annotations or {})}
        labels = {PROJECT_LABEL: PROJECT, **more.pop("labels", {})}
        return {"namespace": self.namespace, "labels": labels, **({"annotations": chosen} if chosen else {}), **more}


def provider(stack: str, traits: Traits, way: pulumi.Resource, parent: pulumi.Resource) -> k8s.Provider:
    """One that reaches what the stack's own kubeconfig says, which `way` writes, and nothing when that is lost.

    `destroy` and `refresh` run no program: the engine configures the provider with the inputs that it recorded here.
    What is not given would come from variables of the environment.
    """
    return k8s.Provider(
        NAME,
        kubeconfig=kube.own_path(stack),
        # Constant: when it changes, everything is made anew, and the old is deleted through what the path means now.
        cluster_identifier=IDENTIFIER,
        # A cluster that does not answer is no reason to forget what is in it, or to call it updated.
        delete_unreachable=False,
        skip_update_unreachable=False,
        upsert_existing_objects=traits.owned,
        enable_patch_force=False,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[way]),
    )
