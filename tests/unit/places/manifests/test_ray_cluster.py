"""The RayCluster, also against the CRD of the pinned KubeRay."""

from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from infra.places.cluster.manifests import jobs, ray_autoscaler, ray_cluster
from infra.places.cluster.manifests.jobs import JobSettings
from infra.places.cluster.manifests.pod_parts import Placement, Size
from infra.places.cluster.manifests.ray_cluster import RayClusterSettings
from infra.plan import RunPlan
from infra.settings.rules import PodTemplate
from policy.pod_security import violations
from tests.unit import crd
from training.workloads.cnn.recipe import CnnRecipe

SETTINGS = RayClusterSettings(
    workers=2,
    head=Size(1, "2Gi"),
    worker=Size(0.4, "1Gi"),
    ray_version="2.60.0",
    placement=Placement("image:1", PodTemplate({"team": "a"}, spec={"nodeSelector": {"pool": "a"}})),
    environment={"A": "b"},
)


def manifest(settings: RayClusterSettings = SETTINGS) -> dict[str, Any]:
    """The whole object."""
    metadata = {"name": ray_cluster.NAME, "annotations": ray_cluster.annotations(settings)}
    return {
        "apiVersion": ray_cluster.API_VERSION,
        "kind": ray_cluster.KIND,
        "metadata": metadata,
        "spec": ray_cluster.spec(settings),
    }


def templates(settings: RayClusterSettings = SETTINGS) -> list[dict[str, Any]]:
    """The pod templates of head and workers."""
    spec = ray_cluster.spec(settings)
    return [spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]]


def test_the_crd_allows_it() -> None:
    """Every field exists and has its type in the CRD of the chart."""
    crd.validate(manifest())


def test_the_schema_sees_a_field_that_is_not_there() -> None:
    """The API server drops unknown fields without a word."""
    wrong = manifest()
    wrong["spec"]["headGroupSpec"]["templat"] = {}

    with pytest.raises(jsonschema.ValidationError, match="templat"):
        crd.validate(wrong)


def test_a_ray_cluster_is_closed_and_trains_in_its_workers_alone() -> None:
    """Pod Security looks at pods only: a RayCluster would be accepted, and its pods refused. Ray runs code for whoever
    reaches it: a token is asked for. A fraction of a CPU is one compute thread, and one CPU to Ray. Ray is as
    documented, in pods as on this machine: no setting of it but those that the ADR names."""
    spec = ray_cluster.spec(SETTINGS)
    (main,) = templates()[1]["spec"]["containers"]

    assert [[], []] == [violations(template["spec"]) for template in templates()]
    assert {"mode": "token"} == spec["authOptions"]
    assert "0" == spec["headGroupSpec"]["rayStartParams"]["num-cpus"]
    assert "1" == spec["workerGroupSpecs"][0]["rayStartParams"]["num-cpus"]
    assert ["RAY_USAGE_STATS_ENABLED"] == [one["name"] for one in main["env"] if one["name"].startswith("RAY_")]
    assert {"name": "A", "value": "b"} in main["env"]


@pytest.mark.parametrize(("per_run", "replicas"), [(False, [5, 5, 5]), (True, [0, 0, 5])])
def test_replicas_go_together(per_run: bool, replicas: list[int]) -> None:
    """KubeRay lowers replicas to maxReplicas without a word. Workers of one run are declared and not asked for."""
    group = ray_cluster.spec(replace(SETTINGS, workers=5, per_run=per_run))["workerGroupSpecs"][0]

    assert replicas == [group[name] for name in ("replicas", "minReplicas", "maxReplicas")]


AUTOSCALED = replace(SETTINGS, workers=5, per_run=True, idle_seconds=30)


def test_ray_s_autoscaler_is_as_strict_as_the_head() -> None:
    """From none to all; its container has the head's image and security, a size, and a token that no other mounts."""
    crd.validate(manifest(AUTOSCALED))
    spec = ray_cluster.spec(AUTOSCALED)
    options, (head, worker) = spec["autoscalerOptions"], [template["spec"] for template in templates(AUTOSCALED)]
    (main,) = head["containers"]
    beside = {"name": "autoscaler"} | options
    group = spec["workerGroupSpecs"][0]

    assert ("v2", 30, True) == (options["version"], options["idleTimeoutSeconds"], spec["enableInTreeAutoscaling"])
    assert [0, 0, 5] == [group[name] for name in ("replicas", "minReplicas", "maxReplicas")]
    assert main["image"] == options["image"]
    assert [] == violations(head | {"containers": [beside]})
    assert ray_autoscaler.SIZE.resources() == options["resources"]
    of_token = {"name": ray_autoscaler.CREDENTIALS, "mountPath": ray_autoscaler.TOKEN_PATH, "readOnly": True}
    assert of_token in options["volumeMounts"]
    assert ray_autoscaler.CREDENTIALS not in {mount["name"] for mount in main["volumeMounts"]}
    assert ray_autoscaler.volume() in head["volumes"]
    assert ray_autoscaler.volume() not in worker["volumes"]
    assert not head["automountServiceAccountToken"]


def test_an_update_does_not_conflict_with_ray_s_autoscaler() -> None:
    """It alone is forced: a conflict with anybody else is somebody else's change."""
    assert "true" == ray_cluster.annotations(AUTOSCALED)["pulumi.com/patchForce"]
    assert "pulumi.com/patchForce" not in ray_cluster.annotations(replace(SETTINGS, per_run=True))
    assert {f"spec.{key}" for key in set(ray_cluster.spec(AUTOSCALED)) - set(ray_cluster.spec(SETTINGS))} == set(
        ray_cluster.replace_on(AUTOSCALED)
    ) - set(ray_cluster.replace_on(SETTINGS))


def test_what_replaces_it_exists() -> None:
    """A path that leads nowhere would let a changed template pass without new pods; workers are none of them."""
    spec = ray_cluster.spec(SETTINGS)
    group = spec["workerGroupSpecs"][0]

    paths = {f"spec.{key}" for key in spec} | {f"spec.workerGroupSpecs[0].{key}" for key in group}

    assert set(ray_cluster.REPLACE_ON) <= paths
    assert not [path for path in ray_cluster.REPLACE_ON if "eplicas" in path]


def native_pod(placement: Placement) -> dict[str, Any]:
    """The pod of a run of `native` that is placed so."""
    native = RunPlan(name="native-1", arm="native", repeat=1, recipe=CnnRecipe(), own_key="", measurement="")
    settings = JobSettings("ci", SETTINGS.worker, SETTINGS.worker, placement, 60, (), {})
    return dict(jobs.job(native, settings)["template"]["spec"])


@pytest.mark.parametrize("spread", ["preferred", "required", "off"])
def test_workers_are_spread_as_a_user_says(spread: str) -> None:
    """Those of native alike; where they have to be, nodes that take no worker do not count."""
    placement = replace(SETTINGS.placement, spread=spread)
    _, worker = templates(replace(SETTINGS, placement=placement))
    pods = (native_pod(placement), worker["spec"])
    said = [
        [(each["whenUnsatisfiable"], each.get("nodeTaintsPolicy")) for each in pod.get("topologySpreadConstraints", ())]
        for pod in pods
    ]

    expected = {"preferred": [("ScheduleAnyway", None)], "required": [("DoNotSchedule", "Honor")], "off": []}
    assert [expected[spread]] * 2 == said
    crd.validate(manifest(replace(SETTINGS, placement=placement)))


def test_workers_are_placed_as_native_s_pods_are() -> None:
    """By what trains: counted with the head, both workers of two nodes could be on the one that the head is not on."""
    (of_native,) = native_pod(SETTINGS.placement)["topologySpreadConstraints"]
    head, worker = (template["spec"] for template in templates())
    (of_ray,) = worker["topologySpreadConstraints"]

    assert {"ray.io/cluster": "ray-training-cluster", "ray.io/node-type": "worker"} == of_ray["labelSelector"][
        "matchLabels"
    ]
    assert of_native | {"labelSelector": None} == of_ray | {"labelSelector": None}
    assert "topologySpreadConstraints" not in head
