"""The project's modules in pods of an image that lacks them: where they are, what starts of them, what makes others."""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.places.cluster import image_check
from infra.places.cluster.manifests import jobs, project_modules, ray_cluster, storage_access
from infra.places.cluster.manifests.pod_parts import UNPACKED_START, UNPACKED_VARIABLES
from infra.places.cluster.manifests.pods import Pods, pods_of
from infra.settings.settings import Settings
from policy import rules
from policy.pod_security import violations
from policy.rules import Declared
from tests.unit import crd
from tests.unit.places.manifests.test_ray_cluster import manifest
from tests.unit.results import COMPARED
from tests.unit.settings_machine import existing, machine, plan_runs, with_run
from training.contract.arms import ARMS
from training.contract.provenance import PROJECT
from training.launch.pod import versions
from training.workloads.script import source

SCRIPT = {"workload": "script", "script": "examples/torch_ddp.py", "wideArm": "true"}
UNPACKED = {"name": "modules", "mountPath": "/ray-worth-it", "readOnly": True}


def settings(**more: str) -> Settings:
    """Of a script in an image that somebody else made."""
    return existing(machine(64, 256), **SCRIPT | more)


def templates(pods: Pods, chosen: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod's spec, by what it is."""
    for plan in plan_runs(with_run(chosen, repeats=1)):
        yield plan.arm, jobs.job(plan, pods.jobs)["template"]["spec"]
    cluster = ray_cluster.spec(pods.ray_cluster)
    yield "head", cluster["headGroupSpec"]["template"]["spec"]
    yield "worker", cluster["workerGroupSpecs"][0]["template"]["spec"]


@pytest.fixture(scope="module")
def chosen() -> Settings:
    """As above."""
    return settings()


@pytest.fixture(scope="module")
def pods(chosen: Settings) -> Pods:
    """Of these."""
    return pods_of(chosen)


def test_every_pod_unpacks_them_before_its_own_container_starts(pods: Pods, chosen: Settings) -> None:
    """Ray's too; as restricted as any, and with nothing more reserved than the pod has without them."""
    found = dict(templates(pods, chosen))
    assert pods.placement.modules

    for name, spec in found.items():
        (first,), (main,) = spec["initContainers"], spec["containers"]
        assert UNPACKED in main["volumeMounts"], name
        assert (main["image"], main["resources"]) == (first["image"], first["resources"])
        assert {"name": "packed", "configMap": {"name": pods.placement.modules}} in spec["volumes"]
        assert [] == violations(spec)
        assert [] == list(rules.requests_are_limits(Declared(rules.JOB, name, {"spec": spec})))
    assert {"baseline", "wide", "native", "ray", "head", "worker"} == found.keys() == {*COMPARED, "head", "worker"}


def test_a_job_starts_ours_whatever_else_its_image_calls_so(pods: Pods, chosen: Settings) -> None:
    """By the path of a file; -P, or the image's own folder would go before. Flags come as in an image of ours."""
    commands = {name: spec["containers"][0].get("command", []) for name, spec in templates(pods, chosen)}
    start = ["python", "-P", "/ray-worth-it/training/launch/pod/unpacked_modules.py"]

    assert [*start, "training.launch.pod.run", "wide"] == commands["wide"][:5]
    assert [*start, "training.launch.ray.submit"] == commands["ray"][:4]
    assert "--script=torch_ddp.py" in commands["native"]
    assert [] == commands["head"]


def test_user_1000_has_a_name_and_a_home_in_every_pod(pods: Pods, chosen: Settings) -> None:
    """PyTorch asks for both; in an image of others the number has neither. Of versions nothing is expected."""
    for name, spec in templates(pods, chosen):
        told = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
        assert UNPACKED_VARIABLES.items() <= told.items(), name
        assert told.get(versions.EXPECTED, "{}") == "{}"


def test_ray_is_told_to_be_as_old_as_it_may_be(pods: Pods) -> None:
    """Its version is known after the image was asked, and a RayCluster that is kept must not depend on that."""
    assert "2.54.0" == ray_cluster.spec(pods.ray_cluster)["rayVersion"]


def test_kuberay_s_crd_has_what_is_declared(pods: Pods) -> None:
    """Containers that run first, too: the API server would drop what it does not describe."""
    crd.validate(manifest(pods.ray_cluster))


def test_an_edit_of_the_script_keeps_the_ray_cluster(tmp_path: Path) -> None:
    """And makes every run again."""
    path, found = tmp_path / "train.py", []
    for text in ("import torch.distributed\n", "import torch.distributed\nprint(1)\n"):
        path.write_text(text)
        given = settings(script=str(path))
        found.append(({plan.own_key for plan in plan_runs(given)}, pods_of(given)))
    (first, before), (second, after) = found

    assert ray_cluster.spec(before.ray_cluster) == ray_cluster.spec(after.ray_cluster)
    assert before.jobs != after.jobs
    assert first.isdisjoint(second)


def test_an_edit_of_the_project_makes_all_again(pods: Pods, chosen: Settings) -> None:
    """As a new image of ours would; nothing else does, not even another hour."""
    other = replace(pods.placement, modules="project-modules-of-another-day")
    changed = replace(
        pods, ray_cluster=replace(pods.ray_cluster, placement=other), jobs=replace(pods.jobs, placement=other)
    )

    before, after, again = (dict(templates(each, chosen)) for each in (pods, changed, pods_of(chosen)))

    assert [] == [name for name in before if before[name] == after[name]]
    assert before == again


def test_they_are_all_that_a_pod_imports_and_small() -> None:
    """An object of Kubernetes holds them with room to grow; the CNN is not among them."""
    made = project_modules.of_workload("script")
    with zipfile.ZipFile(io.BytesIO(made.content)) as packed:
        names = set(packed.namelist())

    assert {f"training/{arm}.py" for arm in ARMS} <= names
    assert {
        "training/launch/pod/run.py",
        "training/launch/ray/submit.py",
        "training/launch/storage/probe.py",
        "training/launch/pod/unpacked_modules.py",
        "training/workloads/script/observe/path/sitecustomize.py",
        "training/workloads/script/ranks/under_ray.py",
    } <= names
    assert not [name for name in names if "cnn" in name or not name.endswith(".py")]
    assert len(made.content) < source.MOST_PACKED_BYTES / 2
    assert made.content == project_modules.of_workload("script").content


def test_the_image_is_asked_for_what_the_script_imports(pods: Pods) -> None:
    """Least versions, and each module with the package that brings it; nothing of this project."""
    asked = pods.asked_of_image

    assert ({"python": "3.11", "ray": "2.54"}, {}) == (asked["least"], asked["exact"])
    assert {"torch": "torch", "pyarrow": "ray[train]", "aiohttp_cors": "ray[default]"}.items() <= asked[
        "modules"
    ].items()
    assert "training" not in asked["modules"]


def test_the_pod_that_asks_has_what_the_others_have_but_the_modules(pods: Pods) -> None:
    """They are made when the image will do: it is asked as the user that pods have, with their home."""
    spec = image_check.pod_of(pods.placement, pods.asked_of_image)["spec"]
    (main,) = spec["containers"]

    assert "initContainers" not in spec
    assert {"name": "HOME", "value": UNPACKED_VARIABLES["HOME"]} in main["env"]


def test_the_pod_that_tries_storage_has_them() -> None:
    """It runs a module of ours, too."""
    chosen = settings(storage="s3://bucket/prefix", serviceAccount="training", createNamespace="false")
    pods = pods_of(chosen)
    assert pods.storage
    spec = storage_access.probe("s3://bucket/prefix", "serviceAccount", pods.placement, pods.storage, "")["spec"]

    assert [*UNPACKED_START, "training.launch.storage.probe"] == spec["containers"][0]["command"][:4]
    assert "initContainers" in spec


def test_nothing_travels_of_the_cnn_or_into_an_image_of_ours() -> None:
    """What is built has them in it, and what is named for the CNN was built from this project."""
    built = {"image": "", "imageRegistry": "registry.example.com/mine", "script": "examples/keras_tf_config.py"}

    for workload, chosen in {"cnn": existing(machine(64, 256)), "script": settings(**built)}.items():
        pods = pods_of(chosen)
        assert pods.placement.modules is None
        asked = pods.asked_of_image["modules"]
        assert f"training.workloads.{workload}.workload" in asked
        started = {"training.launch.pod.run", "training.launch.ray.submit"}  # by Jobs: an older image lacks them
        assert started <= asked.keys()
        assert set(asked.values()) == {""}


def test_a_preview_shows_the_commands_as_they_are_there(chosen: Settings) -> None:
    """The launchers of ours by their path in the pods."""
    assert "ray: " in "\n".join(chosen.commands)
    launcher = "/ray-worth-it/training/workloads/script/ranks/under_ray.py"
    assert f"{launcher} 2 1 " in "\n".join(chosen.commands)
    assert str(PROJECT) not in "\n".join(chosen.commands)


def test_another_lock_of_ours_measures_nothing_again(chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image has what it has, by its name."""
    before = plan_runs(chosen)[0].measurement
    locked = {"python": "3.11", "ray": "9.9", "tensorflow": "9.9"}
    monkeypatch.setattr("infra.image.spec.expected_versions", lambda **_: locked)
    monkeypatch.setattr("infra.image.spec.installed", lambda *_: locked)

    assert before == plan_runs(chosen)[0].measurement
