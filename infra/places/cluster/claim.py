"""The claim of storage pvc as a Pulumi dynamic resource: created once, expanded in place, and never deleted.

Pulumi's own resource would refuse a claim that an earlier life of the stack left, which is what a claim is for. A claim
of another stack is refused, and stays as it is.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests.pod_parts import STACK_ANNOTATION
from infra.places.cluster.manifests.storage_access import CLAIM, claim_object
from infra.programs import UserError
from infra.provider import Provider, changed
from infra.settings.problem import Problem, set_line
from infra.settings.rules import quantity, template_line
from infra.settings.storage import Claim
from training.machine.command_line import again

SINGLE_NODE = {
    "ebs.csi.aws.com": "efs.csi.aws.com",
    "kubernetes.io/aws-ebs": "efs.csi.aws.com",
    "pd.csi.storage.gke.io": "filestore.csi.storage.gke.io",
    "kubernetes.io/gce-pd": "filestore.csi.storage.gke.io",
    "disk.csi.azure.com": "file.csi.azure.com",
    "kubernetes.io/azure-disk": "file.csi.azure.com",
    "cinder.csi.openstack.org": "manila.csi.openstack.org",
    "csi.vsphere.vmware.com": "nfs.csi.k8s.io",
    "dobs.csi.digitalocean.com": "nfs.csi.k8s.io",
    "csi.hetzner.cloud": "nfs.csi.k8s.io",
    "k8s.io/minikube-hostpath": "nfs.csi.k8s.io",
    "hostpath.csi.k8s.io": "nfs.csi.k8s.io",
    "rancher.io/local-path": "nfs.csi.k8s.io",
    "kubernetes.io/no-provisioner": "nfs.csi.k8s.io",
}
"""Provisioners whose volumes one node's pods can write, each with one whose volumes all nodes' pods can write."""
DEFAULT = "storageclass.kubernetes.io/is-default-class"


class ClaimRefusedError(UserError):
    """Raised if the claim cannot be created or changed as requested."""


class TrainingClaim(Resource, module="cluster", name="Claim"):
    """The storage claim (PersistentVolumeClaim) of one stack, as a Pulumi resource."""

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ClaimProvider(), name, properties, opts)


class ClaimProvider(Provider):
    """Creates and expands the storage claim; never deletes the claim."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return a change of the claim's size or class, or a replacement in another namespace or of a deleted claim."""
        moved = ["namespace"] if changed(olds, news, "namespace") or _is_gone(olds) else []
        resized = changed(olds, news, "size", "storageClass", "byManyNodes")
        return DiffResult(changes=bool(moved or resized), replaces=moved)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Create the claim, or adopt the claim that an earlier deployment of the stack left."""
        _apply(props)
        return CreateResult(f"{props['namespace']}/{CLAIM}", props)

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Expand the claim to the new size."""
        _apply(news)
        return UpdateResult(news)


def properties(claim: Claim, stack: str, namespace: str, kubeconfig: str) -> dict[str, Any]:
    """Return the properties of the TrainingClaim resource."""
    return {
        "stack": stack,
        "namespace": namespace,
        "kubeconfig": kubeconfig,
        "size": claim.size,
        "storageClass": claim.storage_class or "",
        "byManyNodes": claim.by_many_nodes,
    }


def _is_gone(props: Mapping[str, Any]) -> bool:
    """Return whether the claim was deleted; false if the cluster does not answer."""
    try:
        return existing(kube.connect(props["kubeconfig"]), props["namespace"]) is None
    except KubeError:
        return False


def _apply(props: dict[str, Any]) -> None:
    wanted = Claim(
        storage_class=props["storageClass"] or None, size=props["size"], by_many_nodes=bool(props["byManyNodes"])
    )
    api, namespace = kube.connect(props["kubeconfig"]), props["namespace"]
    for problem in refusals(api, wanted, props["stack"], namespace):
        raise ClaimRefusedError(str(problem))
    claim = claim_object(wanted, props["stack"], namespace)
    if current := existing(api, namespace):  # its class was chosen when it was made, by the cluster or by the setting
        claim["spec"] = {**claim["spec"], "accessModes": current["spec"]["accessModes"]}
        claim["spec"] |= {key: current["spec"][key] for key in ("storageClassName",) if key in current["spec"]}
    kube.apply(api, path(namespace), claim)


def path(namespace: str) -> str:
    """Return the claim's path at the API server."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{CLAIM}"


def existing(api: Any, namespace: str) -> dict[str, Any] | None:
    """Return the existing claim, or None if the namespace has none. Raise KubeError if that fails."""
    return kube.find(api, path(namespace))


def refusals(api: Any, wanted: Claim, stack: str, namespace: str) -> list[Problem]:
    """Return the reasons to refuse the claim, with command lines that fix it. Ask before anything is created."""
    claim = existing(api, namespace)
    classes = kube.items(api, "/apis/storage.k8s.io/v1/storageclasses")
    name = (claim or {}).get("spec", {}).get("storageClassName") or wanted.storage_class or _default(classes)
    chosen = next((each for each in classes if each["metadata"]["name"] == name), None)
    if claim is not None:
        whole = [*_foreign(claim, stack, namespace), *_on_its_way(claim, stack)]
        refusals = [*whole, *_of_another_class(claim, wanted), *_size(claim, wanted, chosen, namespace)]
        return [*refusals, *_not_shared(claim["spec"]["accessModes"], wanted, namespace)]
    return [*_no_class(chosen, name, classes), *(_single_node(chosen) if wanted.by_many_nodes and chosen else [])]


_ONE_NODE = template_line({"nodeSelector": {"kubernetes.io/hostname": "NODE"}}, "stacks/one-node.yaml")


def _default(classes: list[dict[str, Any]]) -> str:
    marked = [each for each in classes if (each["metadata"].get("annotations") or {}).get(DEFAULT) == "true"]
    return str(marked[0]["metadata"]["name"]) if marked else ""


def _no_class(chosen: Mapping[str, Any] | None, name: str, classes: list[dict[str, Any]]) -> list[Problem]:
    if chosen is not None:
        return []
    names = sorted(str(each["metadata"]["name"]) for each in classes)
    what = f"this cluster has no StorageClass {name}" if name else "this cluster has no default StorageClass"
    ways = tuple(set_line("storageClass", each) for each in names) or ("kubectl get storageclasses",)
    return [Problem(f"{what}, and storage is pvc", fixes=ways)]


def _single_node(chosen: Mapping[str, Any]) -> list[Problem]:
    other = SINGLE_NODE.get(chosen["provisioner"])
    if other is None:
        return []
    name = chosen["metadata"]["name"]
    return [
        Problem(
            f"volumes of StorageClass {name} ({chosen['provisioner']}) are written by the pods of one node, and yours"
            f" may be on several; a class of {other}, or one node for all pods",
            fixes=(set_line("storageClass", "…"), _ONE_NODE),
        )
    ]


def _foreign(claim: Mapping[str, Any], stack: str, namespace: str) -> list[Problem]:
    owner = (claim["metadata"].get("annotations") or {}).get(STACK_ANNOTATION)
    if owner == stack:
        return []
    whose = f"stack {owner}" if owner else "another owner"
    return [
        Problem(
            f"the claim {CLAIM} in namespace {namespace} belongs to {whose}, and was not changed",
            fixes=(set_line("namespace", f"{namespace}-2"),),
        )
    ]


def _on_its_way(claim: Mapping[str, Any], stack: str) -> list[Problem]:
    """Return a problem if the claim is being deleted: that cannot be undone, and ends as soon as no pod mounts it."""
    if "deletionTimestamp" not in claim["metadata"]:
        return []
    why = f"the claim {CLAIM} is being deleted: it is gone as soon as no pod mounts it; to start with a new one"
    return [Problem(why, fixes=(again("destroy", stack=stack),))]


def _of_another_class(claim: Mapping[str, Any], wanted: Claim) -> list[Problem]:
    name = claim["spec"].get("storageClassName")
    if not wanted.storage_class or name == wanted.storage_class:
        return []
    return [
        Problem(
            f"the claim {CLAIM} is of StorageClass {name}, which can't be changed; to keep it",
            fixes=(set_line("storageClass", name),),
        )
    ]


def _size(claim: Mapping[str, Any], wanted: Claim, chosen: Mapping[str, Any] | None, namespace: str) -> list[Problem]:
    from kubernetes.utils import parse_quantity

    text = claim["spec"]["resources"]["requests"]["storage"]
    size, wanted_size = parse_quantity(text), parse_quantity(wanted.size)
    if wanted_size == size or (wanted_size > size and (chosen or {}).get("allowVolumeExpansion")):
        return []
    name = claim["spec"].get("storageClassName")
    why = "claims cannot shrink" if wanted_size < size else f"its StorageClass {name} does not allow expansion"
    return [Problem(f"the claim {CLAIM} has {text}, and {why}", fixes=(_line_that_keeps(text, int(size), namespace),))]


def _line_that_keeps(text: str, size_bytes: int, namespace: str) -> str:
    """Return the command line that keeps the claim's own size, in a unit that `storageSize` allows; if no unit fits,
    the line for another namespace, and so for another claim."""
    for each in (text, f"{size_bytes / 2**30:.15g}Gi"):
        with suppress(ValueError):
            return set_line("storageSize", quantity("1Mi").parse(each).text)
    return set_line("namespace", f"{namespace}-2")


def _not_shared(modes: list[str], wanted: Claim, namespace: str) -> list[Problem]:
    if not wanted.by_many_nodes or "ReadWriteMany" in modes:
        return []
    return [
        Problem(
            f"the claim {CLAIM} in namespace {namespace} is written by pods of one node, and yours may be on several",
            fixes=(_ONE_NODE,),
        )
    ]
