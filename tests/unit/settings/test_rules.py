"""Each key alone: wrong types and both sides of each bound, with a fix that works."""

import re

import pytest

from infra.settings.key import TARGETS, Key
from infra.settings.table import every_key
from tests.unit.settings_machine import only_problem, settings
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.search.recipe import SearchRecipe

READ_BY_RAY_DATA = {
    "workload": "script",
    "script": "tests/script/keras_ray_data.py",
    "scriptArguments": "--num-workers {workers}",
}
A_SCRIPT = {
    "workload": "script",
    "script": "examples/keras_tf_config.py",
    "metric": "loss",
    "scriptArguments": "--out {storage}",
    "storage": "kept",
}
A_SEARCH = {
    "workload": "search",
    "script": "examples/keras_spirals.py",
    "scriptArguments": "--epochs {epochs} --lr {lr}",
    "searchSpace": '{"lr": {"log": [0.0001, 0.1]}}',
    "metric": "val_accuracy",
}
WITH_GPUS = {
    "workload": "script",
    "script": "examples/torch_ddp.py",
    "workerGpus": "1",
    "target": "kubernetes",
    "kubeContext": "staging",
    "image": "registry.example.com/a:1",
}
ON_MINIKUBE = {"target": "minikube", "monitoring": "prometheus"}
OF_KEYS = {
    **dict.fromkeys(set(SearchRecipe.settings()) - set(ScriptRecipe.settings()), A_SEARCH),
    **dict.fromkeys(set(ScriptRecipe.settings()) - set(CnnRecipe.settings()), A_SCRIPT),
    **dict.fromkeys(("monitoring", "prometheusImage", "monitoringNamespace", "grafanaUrl"), ON_MINIKUBE),
    "podMonitorLabels": {
        "target": "kubernetes",
        "kubeContext": "staging",
        "image": "registry.example.com/a:1",
        "monitoring": "existing",
    },
    "queueMinutes": {
        "target": "kubernetes",
        "kubeContext": "staging",
        "image": "registry.example.com/a:1",
        "queue": "training",
    },
    "priceGpuHour": WITH_GPUS,
    "priceSpotFactor": {"interruptionsPerHour": "0.05"},
    "interruptionsPerHour": {"priceSpotFactor": "0.35"},
    **dict.fromkeys(("workerGpus", "gpuResource", "runtimeClass", "gpuNodeSelector", "gpuTolerations"), WITH_GPUS),
    "dataArguments": READ_BY_RAY_DATA,
    "dataCpus": {**READ_BY_RAY_DATA, "dataArguments": "--input ray-data --num-workers {workers}"},
}
"""The settings of a workload that has a key."""
THERE = {
    "target": "kubernetes",
    "kubeContext": "staging",
    "image": "registry.example.com/a:1",
    "createNamespace": "false",
}
IN_S3, CLAIMED = {"storage": "s3://bucket/prefix"}, {**THERE, "storage": "pvc"}
IN_PODS = {**THERE, **IN_S3}
OF_STORAGE = {
    **dict.fromkeys(("storageEndpoint", "storageRegion", "storageRole"), IN_S3),
    **dict.fromkeys(("storageSecret", "serviceAccount"), IN_PODS),
    **dict.fromkeys(("storageClass", "storageSize"), CLAIMED),
}
"""What else must be set for these keys to mean something."""
REFUSED = {
    "workersCurve": ["0", "1,x", "1;2", "1,,2"],
    "workload": ["CNN", "resnet"],
    "scriptArguments": ["'open"],
    "scriptKind": ["ray", "Torchrun"],
    "environment": ["A", "=1", "PYTHONPATH=/x", "'A=1"],
    "artifacts": ["/etc/*", "../*.pt", "'", "*.pt **.pt", "a/b**", "''", ".", "././"],
    "measureSteps": ["-1", "some"],
    "workerGpus": ["-1", "2", "0.5", "1.0", "all"],
    "gpuResource": ["nvidia.com/", "a b", "/gpu"],
    "runtimeClass": ["Nvidia", "a_b"],
    "spreadWorkers": ["never", "Required", "true"],
    "rayWorkers": ["never", "per_run", "Kept", "autoscaling"],
    "idleSeconds": ["9", "3601", "1.5", "60s"],
    "gpuNodeSelector": ["accelerator", "a=b;c=d", "=b", "a=b c", "a=b,"],
    "gpuTolerations": ["gpu:Never", "=x:NoSchedule", "a b", "gpu=x y"],
    "monitoring": ["true", "grafana"],
    "queue": ["Training", "a_b", "a b"],
    "queueMinutes": ["0", "10081", "1.5", "15m"],
    "prometheusImage": ["prometheus", "prometheus:latest"],
    "monitoringNamespace": ["Monitoring", "a_b"],
    "podMonitorLabels": ["release", "=b"],
    "grafanaUrl": ["grafana.example.com", "ftp://host", "https://admin:word@grafana", "https://"],
    "minikubeGpus": ["-1", "17", "all", "1.5"],
    "dataArguments": ["'"],
    "dataCpus": ["0", "1.5", "none"],
    "searchTrials": ["1", "1001", "all"],
    "searchAlgorithm": ["grid", "TPE"],
    "searchScheduler": ["bohb", "hyperband"],
    "searchGrace": ["0", "10000", "half"],
    "searchReduction": ["1", "101", "1.5"],
    "trialWorkers": ["0", "257", "two"],
    "unit": ["1", "a" * 40, "<b>"],
    "metricMode": ["up", "maximum"],
    "metricTarget": ["nan", "high"],
    "metricTolerance": ["-0.1", "inf"],
    "target": ["Local", "aws"],
    "workers": ["0", "257", "-1", "2.5", "abc", "1e3", "nan"],
    "workerCpus": ["0", "-1", "257", "nan", "inf", "one"],
    "epochs": ["0", "10001", "many"],
    "globalBatchSize": ["0", "65537", "64.0"],
    "learningRate": ["nan", "inf", "-inf", "0", "-0.1", "10.1", "fast"],
    "precision": ["float16", "Float32"],
    "gradientPrecision": ["int8"],
    "seed": ["-1", "2147483648", "x"],
    "warmupSteps": ["-1", "10001", "few"],
    "model": ["resnet", "vgg16"],
    "syncBatchNorm": ["yes", "1"],
    "dataset": ["mnist", "CIFAR10"],
    "trainImages": ["-1", "all"],
    "imageSize": ["31", "1025", "224x224"],
    "augmentation": ["flip"],
    "learningRateSchedule": ["step"],
    "learningRateScaling": ["square"],
    "earlyStopping": ["-1", "10001", "false"],
    "saveModel": ["on"],
    "checkpointEpochs": ["-1", "10001", "true"],
    "checkpointsKept": ["0", "1001", "all"],
    "maxFailures": ["-1", "1001", "inf"],
    "repeats": ["0", "101", "three", "Auto"],
    "wideArm": ["yes"],
    "nativeArm": ["no"],
    "keepBaseline": ["no"],
    "priceCpuHour": ["-0.1", "1001", "nan", "cheap"],
    "priceGpuHour": ["-0.1", "10001", "nan", "2.5 €"],
    "priceGibHour": ["-0.1", "1001", "inf", "$0.01"],
    "priceSpotFactor": ["0", "-0.1", "1.01", "35%"],
    "interruptionsPerHour": ["-0.1", "1001", "nan", "often"],
    "runTimeoutMinutes": ["0", "10081", "1h"],
    "budgetMinutes": ["0", "10081", "1.5", "15m"],
    "allowOversubscription": ["force"],
    "allowOpenPorts": ["1"],
    "rayDashboard": ["8265"],
    "workerMemory": ["511Mi", "2GB", "2g", "512m", "-2Gi", "2 Gi", "lots"],
    "headCpus": ["0", "257", "nan"],
    "headMemory": ["1023Mi", "2gb"],
    "storageEndpoint": ["localhost:9000", "https://", "https://host/path", "ftp://host", "https://user:word@host"],
    "storageRegion": ["EU", "a b"],
    "storageRole": ["training", "arn:aws:iam::1:role/x", "arn:aws:iam::123456789012:user/x"],
    "storageClass": ["My Class"],
    "storageSize": ["0", "10GB", "65Ti", "much"],
    "storageSecret": ["My Secret"],
    "serviceAccount": ["A"],
    "storage": ["/", "http://host/x", "s3://", "s3://B_/x", "s3://bucket/x?region=y", "file:///x"],
    "sharedMemory": ["1", "1gb", "none"],
    "scratch": ["1023Ki", "10gb"],
    "egress": ["example.com:443", "0.0.0.0/0", "10.0.0.1/8:443", "10.0.0.0/8:0", "10.0.0.0/8:70000", ":443"],
    "minikubeProfile": ["Big", "a_b", "-a", "a-", "a" * 59],
    "minikubeNodes": ["0", "21", "two"],
    "minikubeCpus": ["1", "257", "2.5"],
    "minikubeMemory": ["2047Mi", "6g"],
    "operator": ["true", "helm"],
    "kuberayVersion": ["v1.6.2", "1.6", "latest"],
    "image": ["a/b", "a/b:latest", "https://a/b:1", "localhost:5000/b", "a/b@sha256:12"],
    "imageRegistry": ["https://ghcr.io/me", "ghcr.io/me/it:1", "ghcr.io/me/"],
    "trackingUri": [
        "mlflow.example.com:5000",
        "ftp://host",
        "file:///mlruns",
        "sqlite:///mlflow.db",
        "http://",
        "databricks",
    ],
    "namespace": ["Ray", "ray_system", "-ray", "a" * 64, "ray.system"],
    "createNamespace": ["maybe"],
    "rayAddress": ["ray://head:10001", "head:8265", "http://a@head:8265", "http://", "ftp://head"],
}
ACCEPTED = {
    "workers": ["1", " 8 "],
    "workerCpus": ["1", "2.0"],
    "epochs": ["1", "10000"],
    "globalBatchSize": ["2", "431"],
    "learningRate": ["10", "1e-9"],
    "seed": ["0", "2147483644"],
    "warmupSteps": ["0", "62"],
    "trainImages": ["0", "72", "1437"],
    "earlyStopping": ["0", "10000"],
    "saveModel": ["True", "false"],
    "checkpointEpochs": ["0"],
    "maxFailures": ["0", "1000"],
    "repeats": ["1", "100", "auto"],
    "runTimeoutMinutes": ["1", "10080"],
    "budgetMinutes": ["1", "10080"],
    "workerMemory": ["512Mi", "1.5Gi", "2147483648", "2G", "1Ti"],
    "headMemory": ["1Gi"],
    "storage": ["s3://bucket", "gs://bucket/a/b", "~/kept", "/mnt/kept", "../kept"],
    "egress": ["none", "203.0.113.7:443", "0.0.0.0/0:443,[2001:db8::1]:80"],
    "minikubeProfile": ["a", "a" * 58],
    "minikubeNodes": ["1", "20"],
    "minikubeCpus": ["2", "256"],
    "image": ["localhost:5000/a/b_c:1", "a:1@sha256:" + "0" * 64],
    "imageRegistry": ["localhost:5000/me", "me/it"],
    "trackingUri": ["http://localhost:5000", "https://ml.example.com/mlflow/", "http://[::1]:5000"],
    "namespace": ["a", "a" * 63],
    "workersCurve": ["none", "1", "2,1", "1, 2"],
    "rayAddress": ["https://ray.example.com", "http://10.0.0.7:8265/", "http://head/ray"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in REFUSED.items() for value in values])
def test_a_value_outside_its_rule_is_refused(key: str, value: str) -> None:
    """The message has the key, the value, what is allowed, and a line that works."""
    found = only_problem(**OF_KEYS.get(key, OF_STORAGE.get(key, {})) | {key: value})

    assert f"{key} = {value}" in found
    assert f"allowed: {every_key()[key].rule.allowed}" in found
    assert re.search(rf"fix:     pulumi config (?:rm {key}$|set {key} )", found, re.MULTILINE)


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in ACCEPTED.items() for value in values])
def test_a_value_at_the_bound_is_accepted(key: str, value: str) -> None:
    """What is allowed includes its bounds."""
    settings(**{key: value})


def test_every_rule_is_tested() -> None:
    """Each key is refused something; paths, names that only a cluster can judge, and what a check explains excepted."""
    of_paths = {
        "datasetPath",
        "kubeconfig",
        "kubeContext",
        "script",
        "scriptFolder",
        "python",
        "requirements",
        "metric",
        "metricPattern",
        "searchSpace",
        "offline",
        "podTemplate",
    }
    assert set(every_key()) - set(REFUSED) == {*of_paths, "secretEnvironment", "storageCredentials", "rayToken"}


def test_keys_of_a_recipe_have_the_recipe_s_rules() -> None:
    """Command line and config allow the same: rules and help are not said twice."""
    for name, its in CnnRecipe.settings().items():
        if name not in ("dataset", "workload"):  # of a stack, and not of one recipe
            assert every_key()[name].rule is its.metadata["rule"]
            assert every_key()[name].help == its.metadata["help"]


def test_defaults_and_examples_obey_their_rule() -> None:
    """What the docs show can be typed."""
    keys = every_key().values()
    texts = [(key, text) for key in keys for text in (*(key.default_for(target) for target in TARGETS), key.example)]

    assert [] == [(key.name, text) for key, text in texts if text and not allows(key, text)]
    assert [] == [key.name for key in keys if not (key.value_that_works("local") and (key.default or key.derived))]


def allows(key: Key, text: str) -> bool:
    """Whether the key's rule takes the text."""
    try:
        key.rule.parse(text)
    except ValueError:
        return False
    return True


def test_memory_is_read_as_kubernetes_reads_it() -> None:
    """Binary and decimal units differ."""
    sizes = {
        text: settings(workerMemory=text).run.worker_memory.bytes for text in ("1Gi", "1G", "1.5Gi", "1024Mi", "1000M")
    }

    assert sizes == {"1Gi": 2**30, "1G": 10**9, "1.5Gi": 3 * 2**29, "1024Mi": 2**30, "1000M": 10**9}
