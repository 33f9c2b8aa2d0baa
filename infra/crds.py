"""KubeRay's CRDs as one Pulumi dynamic resource: made from the chart, changed with it, kept when the stack goes.

Helm makes CRDs and never changes them, and deleting one deletes every object of its kind, whoever made it. A CRD that
somebody else made is refused, and left as it is.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import json
import sys
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from infra.chart import crds_digest, find
from infra.kube import client

LABEL = "app.kubernetes.io/managed-by"
OWNER = "ray-worth-it"
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class ForeignCrdsError(Exception):
    """CRDs that another made; the message says what to set."""


class Crds(Resource, module="cluster", name="Crds"):
    """The CRDs of one version of KubeRay in one cluster."""

    digest: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(CrdsProvider(), name, properties, opts)


class CrdsProvider(ResourceProvider):
    """Applies the chart's CRDs; deletes none."""

    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:  # noqa: ARG002
        """Called before anything else in the provider's process, and only there."""
        sys.tracebacklimit = 0

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """The CRDs' content decides; where the chart came from does not."""
        return DiffResult(changes=news.get("digest") != olds.get("digest"))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Apply the CRDs."""
        _apply(props)
        return CreateResult("kuberay-crds", props)

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Apply those of another version."""
        _apply(news)
        return UpdateResult(news)


def _apply(props: dict[str, Any]) -> None:
    crds = find(props["chart"], props["repository"], props["version"]).crds()
    if crds_digest(crds) != props["digest"]:
        raise RuntimeError("the chart changed while `pulumi up` ran: run it again")
    api = client(props["kubeconfig"], props["context"] or None)
    if not props["takeOver"]:
        _refuse_foreign(api, [crd["metadata"]["name"] for crd in crds])
    for crd in crds:
        crd["metadata"].setdefault("labels", {})[LABEL] = OWNER
        _call(api, "PATCH", f"{CRD_PATH}/{crd['metadata']['name']}", crd)


def _refuse_foreign(api: Any, names: list[str]) -> None:
    found = {crd["metadata"]["name"]: crd["metadata"].get("labels") or {} for crd in _call(api, "GET", CRD_PATH)["items"]}
    foreign = [name for name in names if name in found and found[name].get(LABEL) != OWNER]
    if foreign:
        raise ForeignCrdsError(
            f"this cluster has CRDs of KubeRay that this project did not make ({', '.join(foreign)}): they stay as they are.\n"
            "To use the operator that looks after them:  pulumi config set operator existing"
        )


def _call(api: Any, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """One request; a PATCH is a server-side apply, which has no limit on the size of a CRD."""
    answer = api.call_api(
        path,
        method,
        query_params=[("fieldManager", OWNER), ("force", "true")] if method == "PATCH" else [],
        header_params={"Accept": "application/json", "Content-Type": "application/apply-patch+yaml"},
        body=body,
        auth_settings=["BearerToken"],
        _preload_content=False,
        _return_http_data_only=True,
    )
    return json.loads(answer.data)
