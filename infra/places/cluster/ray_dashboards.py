"""The Grafana dashboards of the image's own Ray as a Pulumi dynamic resource: ConfigMaps of what a short Job generates.

The state has their digests and not their texts, which are hundreds of kilobytes. The ConfigMaps are immutable, named by
a hash of their contents, and deleted with the resource. The state holds the provider pickled by reference: this module
and its class keep their names for ever.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.places.cluster.api import kube, short_job
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.short_job import ShortJobError
from infra.places.cluster.manifests import monitoring
from infra.places.cluster.manifests.pod_parts import (
    UNPACKED_VARIABLES,
    Manifest,
    Placement,
    Size,
    container,
    metadata,
    pod,
)
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by
from infra.settings.problem import set_line
from training.contract.provenance import PROJECT

NAME = "ray-dashboards"
GENERATOR = PROJECT / "training" / "image" / "dashboards.py"
SIZE = Size(0.5, "512Mi")
SECONDS = 900.0
"""The seconds that the Job may take. An image of some gigabytes may have to be pulled first."""


class NoDashboardsError(UserError):
    """Raised if the image's Ray generates no Grafana dashboards, or if the cluster refuses their ConfigMaps."""


class RayDashboards(Resource, module="cluster", name="RayDashboards"):
    """The Grafana dashboards of an image's Ray as a Pulumi resource. `digests` are their SHA-256 by the name of their
    ConfigMap, as canonical JSON."""

    digests: pulumi.Output[str]

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RayDashboardsProvider(), name, properties | {"digests": None}, opts)


class RayDashboardsProvider(Provider):
    """Generates the dashboards when the resource is created, and deletes them when the resource is deleted."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the resource is replaced if the image or the namespace changed."""
        replaced = bool(changed(olds, news, "pod", "namespace"))
        return replaced_by(["pod"] if replaced else [], deleted_first=True)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Generate the dashboards in the image, and create their ConfigMaps. Raise NoDashboardsError if that fails."""
        try:
            api = kube.connect(props["kubeconfig"])
            pod = json.loads(props["pod"])
            log = short_job.run(api, props["namespace"], NAME, pod, SECONDS)
            digests = _create(api, props["namespace"], _unpacked(log), pod["metadata"]["labels"])
        except (KubeError, ShortJobError, ValueError, zlib.error) as error:
            raise NoDashboardsError(_failure(props["image"], error)) from None
        return CreateResult(NAME, props | {"digests": json.dumps(digests, sort_keys=True)})

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        """Delete the ConfigMaps with the dashboards. Raise KubeError if the cluster does not answer or refuses."""
        api = kube.connect(props["kubeconfig"])
        _delete(api, props["namespace"], json.loads(props["digests"]))


def pod_of(placement: Placement) -> Manifest:
    """Return the pod that generates an image's dashboards, with the placement and restrictions of all pods."""
    bare = monitoring.bare(placement)
    command = ["python", "-c", GENERATOR.read_text(encoding="utf-8")]
    main = container(NAME, placement.image, SIZE, command=command, environment=UNPACKED_VARIABLES)
    return {"metadata": metadata(bare, NAME), "spec": pod(main, bare)}


def _unpacked(log: str) -> dict[str, str]:
    """Return the dashboards, by name, in a log's last line. Raise ValueError or zlib.error if it holds none."""
    lines = log.strip().splitlines()
    if not lines:
        raise ValueError("its log is empty")
    texts: dict[str, str] = json.loads(zlib.decompress(base64.b64decode(lines[-1], validate=True)))
    return texts


def _create(api: Any, namespace: str, texts: dict[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """Create a ConfigMap for each dashboard, and return their digests. An existing ConfigMap of the same name has the
    same contents, because the name has a hash of them. If the cluster refuses one ConfigMap, all are deleted, because
    no state would contain their names."""
    digests: dict[str, str] = {}
    for name, text in texts.items():
        item = monitoring.dashboard_object(f"ray-{name}", text)
        item["metadata"]["labels"] |= labels
        try:
            kube.create(api, _path(namespace), item)
        except KubeError as error:
            if error.status != 409:
                with suppress(KubeError):  # of the two the first is told
                    _delete(api, namespace, digests)
                raise
        digests[item["metadata"]["name"]] = item["metadata"]["annotations"][monitoring.DIGEST_ANNOTATION]
    return digests


def _delete(api: Any, namespace: str, names: Iterable[str]) -> None:
    for name in names:
        kube.delete(api, f"{_path(namespace)}/{name}")


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _failure(image: str, error: Exception) -> str:
    log = error.log if isinstance(error, ShortJobError) else ""
    lines = "".join(f"\n  {line}" for line in log.splitlines()[-1:])
    why = "the line is not what was printed" if isinstance(error, binascii.Error | zlib.error) else str(error)
    off = set_line("monitoring", "none")
    return f"the dashboards of the Ray in {image} could not be generated: {why}{lines}\nWithout metrics:  {off}"
