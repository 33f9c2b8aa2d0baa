"""Each key alone: wrong types and both sides of each bound, with a fix that works."""

import re

import pytest

from infra.settings.key import TARGETS, Key
from infra.settings.table import every_key
from tests.unit.settings_machine import only_problem, settings
from tests.unit.settings_values import EXISTING, OF_WORKLOADS, needed, refused, with_workload
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
A_SEARCH = {"workload": "search", **OF_WORKLOADS["search"]}
WITH_GPUS = {**EXISTING, "workload": "script", "script": "examples/torch_ddp.py", "workerGpus": "1"}
OF_KEYS = {
    **dict.fromkeys(set(SearchRecipe.settings()) - set(ScriptRecipe.settings()), A_SEARCH),
    **dict.fromkeys(set(ScriptRecipe.settings()) - set(CnnRecipe.settings()), A_SCRIPT),
    **{name: WITH_GPUS for name, key in every_key().items() if "workerGpus" in (name, *key.needs)},
    "dataArguments": READ_BY_RAY_DATA,
    "dataCpus": {**READ_BY_RAY_DATA, "dataArguments": "--input ray-data --num-workers {workers}"},
}
"""The settings of a workload that has a key, where that is more than `beside` makes."""
THERE = {**EXISTING, "createNamespace": "false"}
IN_S3, CLAIMED = {"storage": "s3://bucket/prefix"}, {**THERE, "storage": "pvc"}
IN_PODS = {**THERE, **IN_S3}
OF_STORAGE = {
    **dict.fromkeys(("storageEndpoint", "storageRegion", "storageRole"), IN_S3),
    **dict.fromkeys(("storageSecret", "serviceAccount"), IN_PODS),
    **dict.fromkeys(("storageClass", "storageSize"), CLAIMED),
}
"""What else must be set for these keys to mean something."""
REFUSED: dict[str, list[str]] = {
    "workersCurve": ["0", "1,x", "1;2", "1,,2"],
    "scriptArguments": ["'open"],
    "environment": ["A", "=1", "PYTHONPATH=/x", "'A=1"],
    "artifacts": ["/etc/*", "../*.pt", "'", "*.pt **.pt", "a/b**", "''", ".", "././"],
    "gpuResource": ["nvidia.com/", "a b", "/gpu"],
    "runtimeClass": ["Nvidia", "a_b"],
    "gpuNodeSelector": ["accelerator", "a=b;c=d", "=b", "a=b c", "a=b,"],
    "gpuTolerations": ["gpu:Never", "=x:NoSchedule", "a b", "gpu=x y"],
    "queue": ["Training", "a_b", "a b"],
    "prometheusImage": ["prometheus", "prometheus:latest"],
    "monitoringNamespace": ["Monitoring", "a_b"],
    "podMonitorLabels": ["release", "=b"],
    "grafanaUrl": ["grafana.example.com", "ftp://host", "https://admin:word@grafana", "https://"],
    "dataArguments": ["'"],
    "unit": ["1", "a" * 40, "<b>"],
    "storageEndpoint": ["localhost:9000", "https://", "https://host/path", "ftp://host", "https://user:word@host"],
    "storageRegion": ["EU", "a b"],
    "storageRole": ["training", "arn:aws:iam::1:role/x", "arn:aws:iam::123456789012:user/x"],
    "storageClass": ["My Class"],
    "storageSecret": ["My Secret"],
    "serviceAccount": ["A"],
    "storage": ["/", "http://host/x", "s3://", "s3://B_/x", "s3://bucket/x?region=y", "file:///x"],
    "egress": ["example.com:443", "0.0.0.0/0", "10.0.0.1/8:443", "10.0.0.0/8:0", "10.0.0.0/8:70000", ":443"],
    "minikubeProfile": ["Big", "a_b", "-a", "a-", "a" * 59],
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
    "rayAddress": ["ray://head:10001", "head:8265", "http://a@head:8265", "http://", "ftp://head"],
}
"""Texts that no rule allows, of keys whose words give no bounds."""
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


WRONG = {name: texts for name, key in every_key().items() if (texts := [*refused(key), *REFUSED.get(name, ())])}


def beside(key: str) -> dict[str, str]:
    """What else must be set for a key to mean something."""
    target: dict[str, str] = {}
    if "local" not in every_key()[key].targets and needed(key):
        target = {"target": "minikube"} if "minikube" in every_key()[key].targets else THERE
    return OF_KEYS.get(key) or OF_STORAGE.get(key) or {**with_workload(key), **target, **needed(key)}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_a_value_outside_its_rule_is_refused(key: str, value: str) -> None:
    """The message has the key, the value, what is allowed, and a line that works."""
    found = only_problem(**beside(key) | {key: value})

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
    assert set(every_key()) - set(WRONG) == {*of_paths, "secretEnvironment", "storageCredentials", "rayToken"}


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
