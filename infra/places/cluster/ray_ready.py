"""Waits until the RayCluster's pods are ready, as a Pulumi dynamic resource: says what they wait for, and ends when
that is in vain. Pulumi's own wait does neither.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import time
from contextlib import suppress
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.places.cluster.api import kube, kueue, ray_scale
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.api.waits import Patience
from infra.places.cluster.manifests import ray_cluster
from infra.programs import UserError
from infra.provider import Provider, changed, replaced_by
from training.machine.command_line import rwi

NAME = "ray-ready"
POLL_SECONDS = 1.0


class NotReadyError(UserError):
    """Raised if the RayCluster's pods did not start; the message says what they wait for."""


class RayReady(Resource, module="cluster", name="RayReady"):
    """The fact that the RayCluster with this `uid` is ready, with `workers` workers, as a Pulumi resource."""

    def __init__(self, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RayReadyProvider(), NAME, properties, opts)


class RayReadyProvider(Provider):
    """Waits for the RayCluster when the resource is created; there is nothing to delete."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the resource is replaced, and waits again, if the RayCluster or the number of workers changed."""
        return replaced_by(changed(olds, news, "uid", "workers"))

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Wait until the RayCluster's head and all workers are ready. Raise NotReadyError if they never are."""
        api, namespace, workers = kube.connect(props["kubeconfig"]), props["namespace"], int(props["workers"])
        patience = Patience(lambda reason: print(f"{NAME}: {reason}", flush=True), is_new=False)
        deadline, problem, in_vain = time.monotonic() + float(props["seconds"]), "", ""
        while not in_vain and time.monotonic() < deadline:
            try:
                cluster = ray_scale.existing(api, namespace)
                if ray_scale.is_ready(cluster, workers):
                    return CreateResult(str(props["uid"]), props)
                pods = ray_scale.all_pods(api, namespace)
                in_vain = patience.look(api, namespace, cluster, pods, 1 + workers)
                problem = "; ".join(dict.fromkeys(ray_scale.waiting(pods)))
            except KubeError as error:  # it answered a moment ago
                problem = str(error)
            time.sleep(POLL_SECONDS)
        with suppress(KubeError):
            problem = kueue.waiting(api, kueue.version(api), namespace).get(ray_cluster.NAME, problem)
        why = in_vain or problem or f"KubeRay's operator has not reported it ready: {rwi('status')}"
        raise NotReadyError(f"the Ray cluster of {workers} workers is not ready: {why}")
