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
    """The program's access to the cluster in which it creates resources."""

    provider: k8s.Provider
    stack: str
    namespace: str
    kubeconfig: str
    """The path of the stack's own kubeconfig file, relative to the project's folder."""
    traits: Traits
    cluster: pulumi.Resource | None = None
    """The resource that creates the cluster, if the stack does; deleting it deletes everything in the cluster."""
    nodes: Nodes | None = None
    """The nodes that load images from this machine's Docker; None if the nodes pull the image from its registry."""
    address: pulumi.Output[str] | None = None
    """The address by which this machine reaches a node; None if it reaches no node."""
    servers: pulumi.Output[str] | None = None
    """The addresses of the cluster's own servers, as `network.Servers` writes them; None if nothing reports them."""
    guard: Callable[[Sequence[pulumi.Resource], pulumi.Resource], object] | None = None
    """A function that creates a resource which Pulumi deletes before all others. The resource is created after the
    given resources, as a child of the function's second argument."""

    def options(self, parent: pulumi.Resource, **more: Any) -> pulumi.ResourceOptions:
        """Return the options of a resource in the cluster. With them, Pulumi deletes the old object before it creates
        the new one.

        Each object has a fixed name. If Pulumi created the replacement first, as it does when the namespace changes, a
        node port or a Helm release would collide with the old one. After a failed update, the old object would wait for
        its deletion. A user who then returns to the old settings would collide with it or, in a cluster that the stack
        owns, lose what was recreated under its name. Also, a Job that an interruption left would share its cores with a
        second Job.
        """
        return pulumi.ResourceOptions(
            parent=parent, provider=self.provider, deleted_with=self.cluster, delete_before_replace=True, **more
        )

    def metadata(self, component: str, annotations: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Return the metadata of an object in the stack's namespace, as a dict; `component` is the object's component
        label. (The type is Any, because pulumi_kubernetes has a type for each kind.)

        In a cluster that the stack owns, objects that an interrupted `up` left are adopted; in other clusters no object
        is taken over.
        """
        own = {"pulumi.com/patchForce": "true"} if self.traits.owned else {}
        chosen = {**own, **(annotations or {})}
        labels = {**pod_parts.labels(component, self.stack), **more.pop("labels", {})}
        return {"namespace": self.namespace, "labels": labels, **({"annotations": chosen} if chosen else {}), **more}


def provider(stack: str, traits: Traits, way: pulumi.Resource, parent: pulumi.Resource) -> k8s.Provider:
    """Return a provider for the stack's own kubeconfig file, which the resource `way` writes. Without this file the
    provider reaches nothing.

    `destroy` and `refresh` do not run the program: the engine configures the provider with the inputs that are recorded
    here. An input that is not set would come from an environment variable.
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
    """Return an object's uid. The uid is unknown in a preview of an update that creates the object."""
    object_uid: str | None = metadata.get("uid")
    return object_uid
