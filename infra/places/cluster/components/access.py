"""The program's connection to its cluster: one explicit provider, and the options that every resource in it gets.

The provider's kubeconfig is the path of a file of the stack's own, which a resource of the place writes: a preview
works without it, no key enters the state, and the user's contexts may change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.image.training_image import Nodes
from infra.places.cluster.api import kube
from infra.places.cluster.manifests import pod_parts
from infra.places.cluster.traits import Traits

NAME = "cluster"
IDENTIFIER = "the cluster of this stack"


@dataclass(frozen=True, kw_only=True)
class Access:
    """A cluster to create resources in."""

    provider: k8s.Provider
    stack: str
    namespace: str
    kubeconfig: str
    """The path of the stack's own file, relative to the project's folder."""
    traits: Traits
    cluster: pulumi.Resource | None = None
    """The resource that creates the cluster, if the stack does; deleting it deletes everything in the cluster."""
    nodes: Nodes | None = None
    """Nodes that load images from this machine's engine; without them an image comes from its registry."""
    address: pulumi.Output[str] | None = None
    """A node's address, as this machine reaches it."""
    servers: pulumi.Output[str] | None = None
    """The addresses of the cluster's own servers, as `network.Servers` writes them; None if nothing says them."""
    guard: Callable[[Sequence[pulumi.Resource], pulumi.Resource], object] | None = None
    """Creates, after the given resources and as a child of the last, a resource that is deleted before all others."""

    def options(self, parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
        """Return the options of a resource in the cluster.

        All have names of their own: where a replacement came first, as Pulumi does when the namespace changes, a node
        port or a release would collide with the one that is still there. After a failed update the old object would
        wait for its deletion, and a user who goes back would collide with it or, in a cluster of ours, lose what was
        recreated under its name. Also, a Job that an interruption left would share its cores with a second one.
        """
        return pulumi.ResourceOptions(
            parent=parent, provider=self.provider, deleted_with=self.cluster, delete_before_replace=True, **more
        )

    def metadata(self, component: str, annotations: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Return the metadata of an object in the namespace that belongs to a component, a dict (Any: pulumi_kubernetes
        types each kind's by itself).

        In a cluster of our own, objects that an interrupted `up` left are adopted; elsewhere no object is taken over.
        """
        own = {"pulumi.com/patchForce": "true"} if self.traits.owned else {}
        chosen = {**own, **(annotations or {})}
        labels = {**pod_parts.labels(component, self.stack), **more.pop("labels", {})}
        return {"namespace": self.namespace, "labels": labels, **({"annotations": chosen} if chosen else {}), **more}


def provider(stack: str, traits: Traits, way: pulumi.Resource, parent: pulumi.Resource) -> k8s.Provider:
    """Return a provider for the stack's own kubeconfig, which `way` writes; it reaches nothing when that file is lost.

    `destroy` and `refresh` run no program: the engine configures the provider with the inputs recorded here. Inputs
    that are not set would come from environment variables.
    """
    return k8s.Provider(
        NAME,
        kubeconfig=kube.own_path(stack),
        # Constant: a change recreates everything, and deletes the old objects in the cluster the path names now.
        cluster_identifier=IDENTIFIER,
        # A cluster that does not answer is no reason to forget what is in it, or to call it updated.
        delete_unreachable=False,
        skip_update_unreachable=False,
        upsert_existing_objects=traits.owned,
        enable_patch_force=False,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[way]),
    )


def uid(metadata: Mapping[str, Any]) -> str | None:
    """Return an object's uid; unknown in a preview that creates the object."""
    object_uid: str | None = metadata.get("uid")
    return object_uid
