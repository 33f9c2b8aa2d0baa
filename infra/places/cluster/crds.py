"""KubeRay's CRDs as one Pulumi dynamic resource: created from the chart, updated with it, kept when the stack is
destroyed.

Helm creates CRDs and never updates them, and deleting one deletes every object of its kind, whoever owns it. A foreign
CRD is refused, and not changed.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

from collections.abc import Iterable
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import CONNECT_SECONDS, KubeError, client
from infra.places.cluster.chart import Source, crds_digest, find
from infra.programs import UserError
from infra.provider import Provider, changed
from infra.settings.rules import CHART

LABEL = "app.kubernetes.io/managed-by"
OWNER = "ray-worth-it"
LIMITS: dict[str, Any] = {"_request_timeout": (CONNECT_SECONDS, 60.0), "_preload_content": False}
"""The seconds to wait for a connection, and for an answer, which is long because a CRD has megabytes. The client does
not convert the answer into objects."""


class ForeignCrdsError(UserError):
    """Raised if the cluster has CRDs that this project does not manage; the message says what to set."""


class Crds(Resource, module="cluster", name="Crds"):
    """The CRDs of one version of KubeRay in one cluster."""

    digest: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(CrdsProvider(), name, properties, opts)


class CrdsProvider(Provider):
    """Creates and updates the chart's CRDs; never deletes them."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return whether the content of the CRDs changed. A change of the chart's source alone is ignored."""
        return DiffResult(changes=bool(changed(olds, news, "digest")))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Create the CRDs in the cluster."""
        _apply(props)
        return CreateResult("kuberay-crds", props)

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Replace the CRDs by those of another version."""
        _apply(news)
        return UpdateResult(news)


def _apply(props: dict[str, Any]) -> None:
    path = None if props["chart"] == CHART else props["chart"]
    crds = find(Source(path, props["version"], props["chartDigest"])).crds()
    if crds_digest(crds) != props["digest"]:
        raise RuntimeError("the chart changed while `pulumi up` ran: run it again")
    if not props["takeOver"]:
        refuse_foreign(kube.connect(props["kubeconfig"]), [crd["metadata"]["name"] for crd in crds])
    api = _api(props)
    for crd in crds:
        crd["metadata"].setdefault("labels", {})[LABEL] = OWNER
        # A server-side apply: the annotation of the other kind has a limit that a CRD of this size exceeds.
        api.patch_custom_resource_definition(
            crd["metadata"]["name"], crd, field_manager=OWNER, force=True,
            _content_type="application/apply-patch+yaml", **LIMITS,
        )  # fmt: skip


def _api(props: dict[str, Any]) -> Any:
    from kubernetes.client import ApiextensionsV1Api

    return ApiextensionsV1Api(client(props["kubeconfig"]))


def refuse_foreign(api: Any, names: Iterable[str]) -> None:
    """Raise ForeignCrdsError if another owner manages a CRD of one of these names, and KubeError if that is unknown."""
    foreign = [name for name in names if _owner(api, name) not in (OWNER, None)]
    if foreign:
        raise ForeignCrdsError(
            "this cluster has CRDs of KubeRay that this project did not make: they stay as they are"
            f" ({', '.join(foreign)}).\n"
            "To use the operator that looks after them:  pulumi config set operator existing"
        )


def _owner(api: Any, name: str) -> str | None:
    """Return a CRD's manager: empty if its labels name none, None without the CRD. Raise KubeError if that fails."""
    try:
        metadata = kube.metadata(api, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    except KubeError as error:
        if error.status != 404:
            raise
        return None
    return str((metadata.get("labels") or {}).get(LABEL, ""))
