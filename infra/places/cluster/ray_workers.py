"""Ray's workers for one run as a Pulumi dynamic resource: asked for before the run, taken away by another after it.

Both are created once a run. A run that failed or was interrupted leaves its workers; the next update takes them away
before anything else, and asks for them again when that run's turn comes.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from infra.places.cluster.api import idle_workers, kube, ray_scale
from infra.places.cluster.api.kube import KubeError
from infra.places.cluster.run_credentials import ended_well
from infra.provider import Provider, changed, replaced_by

SCALED = "ray-worth-it/scaled-up"
"""The annotation of a Job's template that names the workers asked for. New workers so repeat the run."""


class RayWorkers(Resource, module="cluster", name="RayWorkers"):
    """The workers of the RayCluster for one run, `workers` of them; after the run a second resource sets 0."""

    scaleUp: pulumi.Output[str]  # noqa: N815 (the property's name)
    """The seconds that each phase of the workers' start took, as JSON."""

    def __init__(self, name: str, properties: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RayWorkersProvider(), name, properties | {"scaleUp": None}, opts)


class RayWorkersProvider(Provider):
    """Changes the number of workers when the resource is created, and at no other time."""

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        """Return that the workers are replaced when their run is repeated, or if it did not end well before."""
        replaces = changed(olds, news, "run", "workers", "namespace", "after")
        if not replaces and olds["workers"] and _was_interrupted(olds):
            return DiffResult(changes=True, replaces=["run"])
        return replaced_by(replaces)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Ask for the workers, or remove them, and wait until that is done. With Ray's autoscaler, only wait until it
        has removed them. Raise ScaleError if that takes too long, and KubeError if the cluster does not answer."""
        api, namespace = kube.connect(props["kubeconfig"]), props["namespace"]
        phases = {}
        if idle := props.get("idleSeconds"):
            idle_workers.wait_until_gone(api, namespace, props["stack"], int(idle))
        elif props["workers"]:
            phases = ray_scale.up(api, namespace, props["name"], int(props["workers"]))
        else:
            ray_scale.down(api, namespace, ended=True)
        return CreateResult(uuid.uuid4().hex, props | {"scaleUp": json.dumps(phases)})

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Report the workers as gone if the run's Job does not exist, so that after a refresh both are recreated."""
        is_gone = props["workers"] and ended_well(props) is None
        return ReadResult(None if is_gone else id_, props)


def _was_interrupted(props: Mapping[str, Any]) -> bool:
    """Return whether the run that needed the workers was interrupted; False if the cluster does not answer."""
    try:
        marked = ray_scale.marked_for(kube.connect(props["kubeconfig"]), props["namespace"])
    except KubeError:
        return False
    return marked == props["name"] and not ended_well(props)
