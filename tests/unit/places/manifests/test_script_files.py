"""What a script brings into a cluster: in which pods it is, and what no manifest has."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from infra.places.cluster.manifests import jobs, ray_cluster, script_files
from infra.places.cluster.manifests.ray_cluster import RayClusterSettings
from infra.places.cluster.manifests.script_files import Secret
from infra.plan import RunPlan
from policy.pod_security import violations
from tests.unit.places.manifests.test_jobs import SETTINGS
from training.contract.arms import ARMS
from training.contract.workload import Files
from training.launch import entry
from training.launch.environment import FILES, SECRET_NAMES
from training.workloads.script.recipe import ScriptRecipe

PACKED = Files(content=b"a zip", digest="0123456789abcdef", recipe={"script": "deep/train.py", "metric": ""})
SECRET = Secret(("HF_TOKEN", "PASSWORD"), "fedcba9876543210")
RECIPE = ScriptRecipe(script="../mine/deep/train.py", script_arguments="--epochs 1", metric="loss", workers=3)
ENVIRONMENT = jobs.environment({}, SECRET)
WITH_FILES = replace(SETTINGS, dataset_flags=(), files=PACKED, environment=ENVIRONMENT)


def pod(arm: str) -> dict[str, Any]:
    """The pod of an arm's Job."""
    plan = RunPlan(name=f"{arm}-1", arm=arm, repeat=1, recipe=RECIPE, own_key="own", measurement="all")
    return dict(jobs.job(plan, WITH_FILES)["template"]["spec"])


@pytest.mark.parametrize("arm", ARMS)
def test_every_pod_of_a_run_reads_the_files(arm: str) -> None:
    """From an object named by what is in it; the pod is as restricted as any."""
    spec = pod(arm)
    (main,) = spec["containers"]
    name, content = script_files.config_map(PACKED)

    assert [] == violations(spec)
    assert {"name": "files", "mountPath": "/files", "readOnly": True} in main["volumeMounts"]
    assert {"name": "files", "configMap": {"name": name}} in spec["volumes"]
    assert {"name": FILES, "value": "/files/files.zip"} in main["env"]
    assert ("script-files-0123456789ab", True) == (name, content["immutable"])
    assert {"files.zip": base64.b64encode(b"a zip").decode()} == content["binaryData"]


@pytest.mark.parametrize("arm", ["baseline", "wide", "native"])
def test_a_pod_is_told_where_the_script_is_in_them(arm: str) -> None:
    """And not what a comparison alone makes of it: a word for the metric is no other Job."""
    (main,) = pod(arm)["containers"]
    recipe = entry.parse(arm, None, ["--result", "/results/result.json", *main["command"][4:]]).recipe

    assert isinstance(recipe, ScriptRecipe)
    assert ("deep/train.py", "--epochs 1", "") == (recipe.script, recipe.script_arguments, recipe.metric)


def test_the_ray_cluster_has_nothing_of_the_files() -> None:
    """An edit would make another; they go to it with each run."""
    settings = RayClusterSettings(3, SETTINGS.worker, SETTINGS.worker, "2.60.0", SETTINGS.placement, ENVIRONMENT)
    declared = str(ray_cluster.spec(settings))

    assert "script-files" not in declared
    assert FILES not in declared
    assert "script-secret-fedcba987654" in declared  # which Ray's workers have from their pods, and not through Ray


def test_secret_variables_are_references() -> None:
    """In every pod that trains, with their names alone; the one that submits has none."""
    (main,) = pod("native")["containers"]
    variables = {one["name"]: one.get("valueFrom", one.get("value")) for one in main["env"]}

    assert "HF_TOKEN,PASSWORD" == variables[SECRET_NAMES]
    assert {"secretKeyRef": {"name": "script-secret-fedcba987654", "key": "PASSWORD"}} == variables["PASSWORD"]
    assert "script-secret" not in str(pod("ray"))


def test_a_dollar_in_the_arguments_stays_one() -> None:
    """Kubernetes replaces $(NAME) in a command, and takes $$ for $."""
    recipe = replace(RECIPE, script_arguments="--name $(HOSTNAME) --price 3$")
    plan = RunPlan(name="baseline-1", arm="baseline", repeat=1, recipe=recipe, own_key="own", measurement="all")
    (main,) = jobs.job(plan, WITH_FILES)["template"]["spec"]["containers"]

    assert "--script-arguments=--name $$(HOSTNAME) --price 3$$" in main["command"]  # not prose: arguments
