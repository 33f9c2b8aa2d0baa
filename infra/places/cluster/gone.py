"""Finds that somebody deleted the namespace or the RayCluster that the stack's state has.

Pulumi believes its state until a refresh: an update would look for what is gone for a minute, and end with *not found*.
"""

import pulumi

from infra import own_state
from infra.places.cluster.api import kube
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests import ray_cluster
from infra.settings.settings import Settings

_KINDS = {
    "kubernetes:core/v1:Namespace": ("/api/v1/namespaces/{name}", "namespace {name}"),
    "kubernetes:ray.io/v1:RayCluster": (
        "/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{name}",
        "RayCluster {name} of namespace {namespace}",
    ),
}
"""For each type of resource: the API path of an object, and its name in messages. Everything else of the stack is in
the namespace, or was made for the RayCluster."""


def refuse(settings: Settings) -> None:
    """Raise RunError if the namespace or the RayCluster in the stack's state is gone from the cluster; a preview warns
    instead. A cluster that does not answer, or that the user may not ask, is ignored."""
    if kube.own_text(settings.stack) is None:
        return
    expected = _expected(settings)
    try:
        api = kube.connect(kube.own_path(settings.stack))
        if all(kube.find(api, path) for path in expected):
            return
        missing = [words for path, words in _in_state() if kube.find(api, path) is None]
    except KubeError:
        return
    except Exception as error:  # noqa: BLE001 - of the engine, of any kind: the update itself will say it
        pulumi.log.debug(f"the stack's own state could not be read: {error}")
        return
    if not missing:
        return
    why = (
        f"the stack's state has what this cluster has no longer: {', '.join(missing)}. It was deleted by other means"
        " than this stack. Results are kept; runs whose Jobs are gone are repeated. To go on:\n"
        "  pulumi refresh --yes && pulumi up"
    )
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"`up` would be refused: {why}")
        return
    raise pulumi.RunError(f"nothing was changed: {why}")


def _expected(settings: Settings) -> list[str]:
    """Return the API paths of the RayCluster, and of the namespace if the stack creates it, in a complete stack."""
    namespace = settings.of_cluster.namespace
    (of_namespace, _), (of_ray, _) = _KINDS.values()
    own = [of_namespace.format(name=namespace)] if settings.of_cluster.create_namespace else []
    return [*own, of_ray.format(name=ray_cluster.NAME, namespace=namespace)]


def _in_state() -> list[tuple[str, str]]:
    """Return the API paths and the names of the namespace and the RayCluster in the stack's state."""
    objects = [(each["type"], each["outputs"].get("metadata")) for each in own_state.resources().values()]
    texts = [
        [text.format(**metadata) for text in _KINDS[kind]] for kind, metadata in objects if kind in _KINDS and metadata
    ]
    return [(path, words) for path, words in texts]
