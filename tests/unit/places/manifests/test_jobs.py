"""A run as a Job."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster.manifests import jobs
from infra.places.cluster.manifests.jobs import JobSettings
from infra.places.cluster.manifests.pod_parts import DISK, Placement, Size
from infra.plan import RunPlan
from policy.pod_security import violations
from training.contract.arms import ARMS
from training.launch import entry
from training.workloads.cnn.recipe import CnnRecipe

DATA = str(Path(__file__).parent)
"""A folder that is there, which the entry points look at."""
SETTINGS = JobSettings(
    stack="ci",
    worker=Size(0.4, "1Gi"),
    wide=Size(1.2, "3221225472"),
    placement=Placement("image:1"),
    timeout_minutes=60,
    dataset_flags=(f"--dataset-path={DATA}",),
    environment={"A": "b"},
)
RECIPE = CnnRecipe(workers=3, worker_cpus=0.4, sync_batch_norm=True, dataset="cifar10")


def plan(arm: str, recipe: CnnRecipe = RECIPE) -> RunPlan:
    """A planned run."""
    return RunPlan(name=f"{arm}-1", arm=arm, repeat=1, recipe=recipe, own_key="own", measurement="all")


def pod(arm: str) -> dict[str, Any]:
    """The pod of an arm's Job."""
    return dict(jobs.job(plan(arm), SETTINGS)["template"]["spec"])


def resources(size: Size) -> dict[str, Any]:
    """What a container of this size has, with what it asks for to keep its log."""
    amounts = size.resources()
    return amounts | {"requests": amounts["requests"] | {DISK: "64Mi"}}


@pytest.mark.parametrize("arm", ARMS)
def test_a_job_runs_once_and_not_for_ever(arm: str) -> None:
    """A second attempt would be another measurement. Pod Security looks at pods only: a Job would be accepted, and its
    pods refused."""
    job = jobs.job(plan(arm), SETTINGS)

    assert (0, 3600, "Never") == (job["backoffLimit"], job["activeDeadlineSeconds"], pod(arm)["restartPolicy"])
    assert "ttlSecondsAfterFinished" not in job
    assert [] == violations(pod(arm))


@pytest.mark.parametrize("arm", ["baseline", "wide", "native"])
def test_flags_are_those_that_the_entry_point_reads(arm: str) -> None:
    """Every field of the recipe arrives as it was."""
    (main,) = pod(arm)["containers"]
    module, own, *flags = main["command"][2:]

    request = entry.parse(arm, None, ["--result", "/results/result.json", *flags])

    assert ("training.launch.pod.run", arm) == (module, own)
    assert DATA == request.dataset_path
    assert ARMS[arm].settings(RECIPE) == ARMS[arm].settings(request.recipe)


def test_the_ray_arm_submits_under_the_job_s_name() -> None:
    """An interrupted run can be found, and two Jobs never share a Ray job."""
    (main,) = pod("ray")["containers"]
    before, after = main["command"][: main["command"].index("--")], main["command"][main["command"].index("--") + 1 :]

    assert "training.launch.ray.submit" in before
    assert {"--submission-id=$(JOB_NAME)", "--stack=ci"} <= set(before)
    assert RECIPE == entry.parse("ray", None, ["--result", "/results/r.json", *after]).recipe
    assert resources(jobs.SUBMITTER) == main["resources"]


def test_another_arm_with_ray_is_submitted_by_its_name() -> None:
    """The head's pod is told which module to run."""
    named = {arm: [flag for flag in pod(arm)["containers"][0]["command"] if flag.startswith("--arm=")]
             for arm in ("ray", "raystart")}  # fmt: skip

    assert {"ray": [], "raystart": ["--arm=raystart"]} == named
    assert "here" == entry.parse("raystart", None, ["--result", "/results/r.json", "--address=here"]).address


def test_only_the_submitter_gets_ray_s_token() -> None:
    """By reference: its value is in no manifest."""
    with_token = [arm for arm in ARMS if "RAY_AUTH_TOKEN" in str(pod(arm))]

    assert ["ray", "raydata", "raystart"] == with_token
    (main,) = pod("ray")["containers"]
    (token,) = [one["valueFrom"]["secretKeyRef"] for one in main["env"] if one["name"] == "RAY_AUTH_TOKEN"]
    assert token["optional"]  # without it the pod starts, and says that the RayCluster is gone


def test_native_pods_have_names_that_resolve_before_they_are_ready() -> None:
    """TensorFlow's workers wait for each other, so none is ever ready first. Pods of an earlier repeat, ended or not,
    must not answer."""
    service, of_another = jobs.service(plan("native")), jobs.service(replace(plan("native"), name="native-2"))
    job = jobs.job(plan("native"), SETTINGS)
    labels = job["template"]["metadata"]["labels"]

    assert service is not None
    assert of_another is not None
    assert ("None", True) == (service["clusterIP"], service["publishNotReadyAddresses"])
    assert [True, False] == [each["selector"].items() <= labels.items() for each in (service, of_another)]
    assert ("Indexed", 3, 3) == (job["completionMode"], job["completions"], job["parallelism"])
    assert "native-1" == job["template"]["spec"]["subdomain"]


def test_arms_that_train_alike_have_alike_pods() -> None:
    """The baseline gets the CPUs and memory of one worker, no more; `wide` is one process with those of all workers,
    and has no other to find."""
    sizes = {arm: pod(arm)["containers"][0]["resources"] for arm in ("baseline", "native", "wide")}
    worker, wide = resources(SETTINGS.worker), resources(SETTINGS.wide)

    assert {"baseline": worker, "native": worker, "wide": wide} == sizes
    assert jobs.service(plan("wide")) is None
    assert "--workers=3" in pod("wide")["containers"][0]["command"]


def test_a_change_of_the_measurement_makes_another_job() -> None:
    """A Job's template can't be changed: a new hash in it replaces the Job. Workers do not change the baseline, so that
    a kept one's Job stays as it is."""
    annotations = jobs.job(plan("ray"), SETTINGS)["template"]["metadata"]["annotations"]
    first, second = [jobs.job(plan("baseline", replace(RECIPE, workers=workers)), SETTINGS) for workers in (3, 4)]

    assert {jobs.OWN_KEY: "own", jobs.MEASUREMENT: "all"} == annotations
    assert first == second


def test_native_pods_share_a_node_only_if_they_must() -> None:
    """Those of this run: two on one node would not need the network, and would share its memory bandwidth."""
    (constraint,) = pod("native")["topologySpreadConstraints"]
    run = jobs.job(plan("native"), SETTINGS)["template"]["metadata"]["labels"]

    assert (1, "kubernetes.io/hostname") == (constraint["maxSkew"], constraint["topologyKey"])
    assert {"ray-worth-it/run": "native-1"} == constraint["labelSelector"]["matchLabels"]
    assert constraint["labelSelector"]["matchLabels"].items() <= run.items()
    assert not {"topologySpreadConstraints"} & (set(pod("baseline")) | set(pod("ray")))


def test_a_training_process_knows_its_node() -> None:
    """Its host's name is the pod's: the node's name is what the verdict compares."""
    assert {"fieldRef": {"fieldPath": "spec.nodeName"}} == jobs.environment({})["TRAINING_NODE"]
