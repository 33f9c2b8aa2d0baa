"""Whether Kueue holds our objects back at all: an administrator says in its configuration which kinds it takes.

One that it does not take keeps the queue's label, starts at once and runs beside others without quota, and nothing says
so. The configuration is the administrator's to read; a dry run shows what it does.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from infra.places.cluster.api import kueue
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.manifests import ray_cluster
from infra.places.cluster.manifests.pod_parts import PROJECT
from infra.places.cluster.manifests.pods import pods_of
from infra.places.cluster.manifests.queue import QUEUE_LABEL
from infra.settings.problem import Problem
from infra.settings.settings import Settings

NAME = f"{PROJECT}-dry-run"
"""The name of what no dry run makes: no object of ours has it."""


def problems(api: Any, settings: Settings) -> Iterator[Problem]:
    """Find a kind of object that Kueue does not take. A dry run that the cluster refuses says nothing: what ran outside
    of the queue is then no result (`job_result`). Raises KubeError."""
    name = settings.of_cluster.queue
    if not name or not _has_kueue(api):
        return
    left_out = [kind for kind, made_at in _objects(settings, name).items() if kueue.suspends(api, *made_at) is False]
    if left_out:
        yield Problem(
            f"queue is {name}, and this cluster's Kueue is not told to take {' and '.join(left_out)}: what is made"
            " with the queue's label is not suspended (tried by a dry run), and would run beside others without quota."
            f" {kueue.TO_TAKE_KINDS}. Without the queue",
            fixes=("pulumi config rm queue",),
        )


def _has_kueue(api: Any) -> bool:
    """Return whether the cluster has Kueue, as far as one may ask."""
    try:
        return bool(kueue.version(api))
    except KubeError as error:
        if error.status != 403:
            raise
        return False


def _objects(settings: Settings, queue: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return by integration the path at which its objects are made, and one: with pods as the stack has them, which the
    rules of the namespace let through."""
    namespace = settings.of_cluster.namespace
    metadata = {"name": NAME, "namespace": namespace, "labels": {QUEUE_LABEL: queue}}
    spec = ray_cluster.spec(pods_of(settings).ray_cluster)
    head = spec["headGroupSpec"]["template"]
    once = {**head, "spec": {**head["spec"], "restartPolicy": "Never"}}
    of_ray = {"apiVersion": ray_cluster.API_VERSION, "kind": ray_cluster.KIND, "metadata": metadata, "spec": spec}
    of_jobs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": once}}
    return {
        kueue.OF_RAY: (f"/apis/{ray_cluster.API_VERSION}/namespaces/{namespace}/rayclusters", of_ray),
        kueue.OF_JOBS: (f"/apis/batch/v1/namespaces/{namespace}/jobs", of_jobs),
    }
