"""Which settings are another measurement: every key, in every stack.

A ratio of runs whose pods or processes differ would say nothing about Ray, and nobody would be told. So a key is either
among `CHANGES_NOTHING`, with its reason, or a change of it measures all arms again.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from infra import bundle
from infra.image.spec import Content
from infra.places.cluster.manifests import jobs, project_modules, ray_cluster
from infra.places.cluster.manifests.pods import pods_of
from infra.places.local import place as local
from infra.places.local import run as local_run
from infra.places.ray import jobs as ray_jobs
from infra.settings.settings import Settings
from infra.settings.table import every_key
from tests.stacks import OF_PLACES, ON_KUBERNETES
from tests.unit.program_recorder import config_of
from tests.unit.settings_machine import machine, parse, plan_runs, with_run
from tests.unit.settings_values import another, needed, with_workload
from tests.unit.test_wiring import record
from training.contract import provenance
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.script import resolve
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import recognise
from training.workloads.search.recipe import SearchRecipe

BUILT = "kubernetes, built here"
"""The stack of an existing cluster, with an image that is pushed instead of one that is there."""
REGISTRY = "registry.example.com/ray-worth-it"
EVERYWHERE = (*OF_PLACES, BUILT)
OF_METRIC = ("metric", "metricMode", "metricTarget", "metricTolerance")
CHANGES_NOTHING = {
    "unit": EVERYWHERE,  # a word in tables
    **dict.fromkeys(OF_METRIC, EVERYWHERE),  # what the comparison makes of what was reported
    "target": EVERYWHERE,  # a stack has one; another is another place, whose hashes differ by the host or the pods
    "repeats": EVERYWHERE,  # more or fewer runs, each as it is
    "wideArm": ("kubernetes", "ray", BUILT),  # it is absent there unless it is asked for
    "nativeArm": ("ray",),  # likewise
    "keepBaseline": EVERYWHERE,
    "priceCpuHour": EVERYWHERE,  # what the comparison makes of the hours
    "priceGibHour": EVERYWHERE,
    "priceGpuHour": EVERYWHERE,
    "priceSpotFactor": EVERYWHERE,  # what the comparison makes of the parts of a run
    "interruptionsPerHour": EVERYWHERE,
    "budgetMinutes": EVERYWHERE,  # what a preview says of the time
    "runTimeoutMinutes": EVERYWHERE,  # the Job's deadline: it ends a run, and changes none that ends before it
    "allowOpenPorts": EVERYWHERE,  # whether it is measured
    "allowOversubscription": EVERYWHERE,  # whether it is measured, and what the verdict says
    "workerMemory": ("local", "ray"),  # not enforced there
    "offline": ("kubernetes",),  # the image that is there is not built here, and the nodes are
    "operator": EVERYWHERE,  # who installs it: its version is in the measurement
    "minikubeProfile": EVERYWHERE,  # another cluster, in which everything is made again
    "createNamespace": EVERYWHERE,  # policies, and who made it
    "kubeconfig": EVERYWHERE,  # how the cluster is reached
    "trackingUri": EVERYWHERE,  # where the comparison goes when all runs have ended
    "storageCredentials": EVERYWHERE,  # how a run is let in: nothing is read or written in another way
    "storageRole": EVERYWHERE,
    "storageSize": EVERYWHERE,  # how much there is room for
    "kubeContext": EVERYWHERE,
    "rayToken": EVERYWHERE,
    "prometheusImage": EVERYWHERE,  # what is read of a run's pods, and how often, is not the image's
    "monitoringNamespace": EVERYWHERE,  # who may read
    "podMonitorLabels": EVERYWHERE,
    "grafanaUrl": EVERYWHERE,  # what `./rwi jobs dashboard` prints
    "queueMinutes": EVERYWHERE,
}
"""Keys whose change repeats nothing, with the stacks for which that holds."""
ANOTHER = {
    "allowOversubscription": "true",
    "globalBatchSize": "96",
    "learningRate": "0.002",
    "gradientPrecision": "bfloat16",
    "warmupSteps": "2",
    "dataset": "synthetic",
    "trainImages": "320",
    "imageSize": "64",
    "learningRateScaling": "sqrt",
    "earlyStopping": "3",
    "checkpointEpochs": "2",
    "checkpointsKept": "5",
    "repeats": "2",
    "workersCurve": "1",
    "wideArm": "false",
    "storage": "s3://bucket/prefix",
    "storageEndpoint": "http://192.0.2.1:9000",
    "storageCredentials": "AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b",
    "storageRole": "arn:aws:iam::123456789012:role/another",
    "storageSecret": "another",
    "serviceAccount": "another",
    "storageClass": "another",
    "storageSize": "20Gi",
    "workerMemory": "1234Mi",
    "egress": "0.0.0.0/0:443",
    "minikubeProfile": "another",
    "minikubeCpus": "8",
    "minikubeMemory": "9Gi",
    "image": "registry.example.com/another:1",
    "imageRegistry": "registry.example.com/another",
    "kubeContext": "another",
    "rayAddress": "http://another.example.com:8265",
    "script": "training/workloads/script/ranks/variables.py",
    "scriptArguments": "--epochs {epochs} --batch 32",
    "scriptKind": "torchrun",
    "scriptFolder": "examples",
    "environment": "COLOUR=crimson",
    "secretEnvironment": "COLOUR=crimson",
    "measureSteps": "20",
    "dataArguments": "--input ray-data --num-workers {workers}",
    "artifacts": "*.pt",
    "metric": "loss",
    "searchSpace": '{"lr": {"log": [0.001, 0.1]}}',
    "searchTrials": "8",
    "searchReduction": "2",
    "gpuResource": "example.com/gpu",
    "gpuTolerations": "gpu:NoSchedule",
    "minikubeGpus": "4",
    "podMonitorLabels": "release=prometheus",
}
"""A value that no stack has, of each key for which `another` makes none that does; the first is true in one stack,
and changes nothing there either."""

HAVE_ONE_VALUE = ("target", "workload", "python")
"""On one place, or with these settings: tests/unit/training/test_added.py asks for the hash of another workload, and
tests/unit/settings/test_script.py changes what a Python has installed."""
A_SCRIPT_WITH_TORCH = {"workload": "script", "script": "examples/torch_ddp.py", "scriptArguments": "--epochs {epochs}"}
WITH_GPUS = {**A_SCRIPT_WITH_TORCH, "workerGpus": "1"}
NEED_GPUS = [name for name, key in every_key().items() if "workerGpus" in key.needs]
ON_SPOT = {"priceSpotFactor": "0.5", "interruptionsPerHour": "0.1"}
OF_SEARCH = set(SearchRecipe.settings()) - set(ScriptRecipe.settings())
OF_CNN = set(CnnRecipe.settings()) - set(ScriptRecipe.settings())
ROLE = {"storageRole": "arn:aws:iam::123456789012:role/training"}
WITH_RAY_DATA = {"script": "tests/script/keras_ray_data.py", "scriptArguments": "--num-workers {workers}"}
BESIDE = {
    "dataArguments": WITH_RAY_DATA,
    "dataCpus": {**WITH_RAY_DATA, "dataArguments": "--input ray-data --num-workers {workers}"},
    "datasetPath": {"dataset": "cifar10"},
    "imageSize": {
        "dataset": "imagefolder",
        "datasetPath": "s3://bucket/images",
        "storage": "s3://bucket/prefix",
        **ROLE,
    },
    "saveModel": {"storage": "s3://bucket/prefix", **ROLE},
    "checkpointEpochs": {"storage": "s3://bucket/prefix", **ROLE},
    "artifacts": {"storage": "s3://bucket/prefix", **ROLE, "scriptArguments": "--epochs {epochs} --out {storage}"},
    **dict.fromkeys(ON_SPOT, ON_SPOT),
    "checkpointsKept": {"storage": "s3://bucket/prefix", **ROLE, "checkpointEpochs": "1"},
    "searchGrace": {"searchScheduler": "asha"},
    "searchReduction": {"searchScheduler": "asha"},
    "workerGpus": A_SCRIPT_WITH_TORCH,
    **dict.fromkeys(NEED_GPUS, WITH_GPUS),
    "minikubeGpus": {**WITH_GPUS, "minikubeNodes": "1"},
}
"""What else must be set, before and after, where that is more than what a key needs."""
IN_S3 = {"storage": "s3://bucket/another", **ROLE}
KEYS = {"storage": "s3://bucket/another", "storageCredentials": "AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=old"}
EXISTING = {"storage": "s3://bucket/another", "createNamespace": "false"}
CLAIMED = {"storage": "pvc", "storageClass": "shared", "createNamespace": "false"}
OF_STORAGE: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "storage": (IN_S3, ()),
    "storageEndpoint": (IN_S3, ()),
    "storageRegion": (IN_S3, ()),
    "storageCredentials": (KEYS, ()),
    "storageRole": (IN_S3, ()),
    "storageSecret": ({**EXISTING, "storageSecret": "keys"}, ()),
    "serviceAccount": ({**EXISTING, "serviceAccount": "training"}, ()),
    "storageClass": (CLAIMED, ()),
    "storageSize": (CLAIMED, ()),
}
"""What is set before a key of storage changes, and what is not, afterwards."""
REFUSED = (
    ("kubernetes", "imageRegistry"),
    (BUILT, "imageRegistry"),
    ("kubernetes", "requirements"),
    ("ray", "datasetPath"),
    ("local", "workerGpus"),
    ("local", "priceGpuHour"),
    *((stack, "operator") for stack in ("ci", "minikube")),
    *(("ray", key) for key in ("imageSize", "saveModel", "checkpointEpochs", "checkpointsKept", "artifacts")),
    *((stack, key) for stack in EVERYWHERE if stack != "local" for key in OF_SEARCH),
)
"""With an image that is there; without the registry it is pushed to; where this stack alone installs an operator;
where no file of this machine is, nor storage; where no environment with PyTorch is; where no trial can run yet."""


@cache
def values_of(stack: str) -> dict[str, str]:
    """What the engine passes for a stack."""
    name = "kubernetes" if stack == BUILT else stack
    values = {key.rpartition(":")[2]: value for key, value in config_of(name, {}).items()}
    if stack == BUILT:
        del values["image"]
        values |= {"imageRegistry": REGISTRY}
    return values


def settings_of(stack: str, **changes: str) -> Settings:
    """A stack's settings with changes, on a machine that everything fits on."""
    values = values_of(stack)
    if "workload" in changes:
        values = {key: value for key, value in values.items() if key not in OF_CNN}
    values = values | changes
    if changes.get("image") and stack == BUILT:
        del values["imageRegistry"]
    secret = frozenset(key for key in ("secretEnvironment", "storageCredentials", "rayToken") if values.get(key))
    return parse(values, replace(machine(cores=64, gib=256, secret=secret), dashboard_installed=True))


def processes(settings: Settings) -> list[Any]:
    """All that the pods, or on this machine the processes, of a measurement's first repeat are told."""
    plans = [replace(plan, own_key="", measurement="") for plan in plan_runs(with_run(settings, repeats=1))]
    if settings.ray:
        return [ray_jobs.job(plan.arm, plan.recipe, settings.secret_environment, plan.name) for plan in plans]
    if settings.cluster is None:
        return [command(settings, plan) for plan in plans]
    made_of = pods_of(settings)
    specs = [jobs.job(plan, made_of.jobs) | {"activeDeadlineSeconds": None} for plan in plans]
    return [settings.cluster.namespace, *specs, ray_cluster.spec(made_of.ray_cluster)]


TOLD = ("--metric=", "--metric-mode=", "--metric-target=", "--metric-tolerance=", "--unit=")


def command(settings: Settings, plan: Any) -> list[str]:
    """The command of a run on this machine, without its deadline."""
    guarded = local_run._guard_command(local._properties(settings, plan), provenance.PROJECT / "runs")
    words = guarded[guarded.index("--") :]
    return [word for word in words if not word.startswith(TOLD)]  # which a run is told, and passes on


def measurement(settings: Settings) -> str:
    """What all runs belong to."""
    (measured,) = {plan.measurement for plan in plan_runs(settings)}
    return measured


@cache
def looked_at(stack: str, changes: frozenset[tuple[str, str]]) -> tuple[Settings, str]:
    """Settings and their measurement. Most keys change the same ones, which are planned once."""
    settings = settings_of(stack, **dict(changes))
    return settings, measurement(settings)


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """Files are hashed and packed once, and a script is read once for the same arguments."""

    @cache
    def zipped(files: tuple[tuple[str, bytes], ...], **more: Any) -> bytes:
        return bundle.zipped(dict(files), **more)

    with pytest.MonkeyPatch.context() as patch:
        recognised = cache(recognise)
        patch.setattr(resolve, "recognise", recognised)
        patch.setattr(Content, "tag", cache(Content.tag))
        patch.setattr(project_modules, "of_workload", cache(project_modules.of_workload))
        patch.setattr(ray_jobs, "modules", cache(ray_jobs.modules))
        patch.setattr(ray_jobs, "zipped", lambda files, **more: zipped(tuple(files.items()), **more))
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Values of keys that name files, before and after a change."""
    tmp_path = tmp_path_factory.mktemp("folders")
    for name in ("one", "two"):
        for file in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
            path = tmp_path / name / "cifar-10-batches-py" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (tmp_path / f"kubeconfig-{name}").touch()
        (tmp_path / f"requirements-{name}").write_text(f"{name}==1.0\n")
    (tmp_path / "requirements-torch").write_text("torch==2.9.1\n")
    return {
        name: {
            "datasetPath": str(tmp_path / name / "cifar-10-batches-py"),
            "kubeconfig": f"{tmp_path}/kubeconfig-{name}",
            "requirements": f"{tmp_path}/requirements-{name}",
        }
        for name in ("one", "two")
    } | {"with torch": {"requirements": f"{tmp_path}/requirements-torch"}}


def test_the_lists_are_of_keys() -> None:
    """One that was renamed would be looked at no more."""
    assert set() == {*ANOTHER, *CHANGES_NOTHING, *HAVE_ONE_VALUE, *BESIDE} - every_key().keys()


@pytest.mark.parametrize("stack", EVERYWHERE)
def test_a_setting_that_changes_a_pod_or_process_measures_again(stack: str, folders: dict[str, dict[str, str]]) -> None:
    """Of any arm; and what is said to change nothing changes none of them."""
    keys = [
        name
        for name, key in every_key().items()
        if name not in HAVE_ONE_VALUE and values_of(stack)["target"] in key.targets
        if (stack, name) not in REFUSED
    ]

    effects = {key: effect(stack, key, folders) for key in keys}

    repeats = {key: repeated for key, (repeated, _) in effects.items()}
    assert {key: stack not in CHANGES_NOTHING.get(key, ()) for key in keys} == repeats
    assert [] == [key for key, (repeated, is_same) in effects.items() if not (repeated or is_same)]


def effect(stack: str, key: str, folders: dict[str, dict[str, str]]) -> tuple[bool, bool]:
    """Whether a change of the key measures again, and whether it leaves pods or processes as they are."""
    before: dict[str, str] = {}
    after = {key: ANOTHER.get(key) or another(every_key()[key], values_of(stack).get(key, ""))}
    if key in OF_STORAGE:
        before, others = OF_STORAGE[key]
        after |= {name: value for name, value in before.items() if name not in (key, *others)}
    if key in folders["one"]:
        before, after = ({key: folders[name][key]} for name in ("one", "two"))
    beside = with_workload(key) | BESIDE.get(key, needed(key))
    beside |= {"metric": "accuracy"} if key in OF_METRIC[2:] else {}
    beside |= folders["with torch"] if key in ("workerGpus", *NEED_GPUS) and stack != "kubernetes" else {}
    settings, measured = looked_at(stack, frozenset((beside | before).items()))
    changed = settings_of(stack, **beside | after)

    repeated = measured != measurement(changed)
    return repeated, not repeated and processes(settings) == processes(changed)


def test_another_registry_is_another_image() -> None:
    """Pushed there, or there already."""
    pushed, there = settings_of(BUILT), settings_of("kubernetes")
    elsewhere = settings_of(BUILT, imageRegistry=ANOTHER["imageRegistry"])

    assert 3 == len({measurement(settings) for settings in (pushed, there, elsewhere)})


@pytest.mark.parametrize("stack", ON_KUBERNETES)
def test_what_is_hashed_is_what_is_declared(stack: str) -> None:
    """The real program's Jobs and RayCluster, but for the hashes themselves."""
    recorded = record(stack)
    settings = parse(values_of(stack), machine(cores=64, gib=256, stack=recorded["stack"]))
    assert settings.cluster is not None
    made_of = pods_of(settings)
    objects = recorded["objects"]
    plans = plan_runs(settings)

    specs = {f"Job {plan.name}": jobs.job(plan, made_of.jobs) for plan in plans}

    assert specs.keys() == {name for name in objects if name.startswith("Job ")}
    assert specs == {name: objects[name]["spec"] for name in specs}
    assert ray_cluster.spec(made_of.ray_cluster) == objects["RayCluster ray-training-cluster"]["spec"]
