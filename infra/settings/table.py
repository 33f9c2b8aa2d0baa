"""Every config key: its rule, its default for each target, what it means, and a value that works.

The config table in README and the declarations in Pulumi.yaml are made from this. What a recipe's keys may hold and
mean is said in `training.contract.recipe`; what must agree between keys, in `infra.settings.checks`.
"""

from dataclasses import MISSING, Field
from typing import Any

from infra.settings.cluster_table import CLUSTER_KEYS
from infra.settings.key import CLUSTER, LOCAL, TARGETS, Key, Target
from infra.settings.rules import listed, quantity
from training.contract.rules import boolean, choice, number, text, whole
from training.contract.workload import WORKLOADS, named
from training.workloads.cnn import registry
from training.workloads.script.recipe import environment_rule

AUTO = "auto"
_DEFAULTS_BY_TARGET: dict[str, dict[Target, str]] = {
    "trainImages": dict.fromkeys(CLUSTER, "2560"),
}
"""Recipe keys whose default is another than the recipe's own on some target.

On clusters: an epoch of all CIFAR-10 takes one core five minutes, and nine runs should take under twenty.
"""
AUTO_DATASETS: dict[Target, str] = {"local": "digits", **dict.fromkeys(CLUSTER, "cifar10")}
"""What `auto` means without a datasetPath."""
_EXAMPLES = {
    "trainImages": "1024",
    "gradientPrecision": "float32",
    "script": "../mine/train.py",
    "scriptArguments": "--epochs 1 --num-workers {workers}",
    "scriptFolder": "../mine",
    "python": "../mine/.venv/bin/python",
    "metric": "val_accuracy",
    "metricTarget": "0.9",
    "metricTolerance": "0.01",
    "environment": "DATA=/data HF_HOME=/models",
}
_DERIVED: dict[str, tuple[str, Any]] = {
    "trainImages": ("all", 0),
    "gradientPrecision": ("that of precision", None),
    "script": ("none", ""),
    "scriptArguments": ("none", ""),
    "scriptFolder": ("the script, and modules beside it that it imports", ""),
    "python": ("the project's own", ""),
    "environment": ("none", ""),
    "metric": ("none", ""),
    "metricTarget": ("none", None),
    "metricTolerance": ("none", None),
}
"""Recipe keys without a default: what holds then, in words, and as a value (None: `settings` knows it)."""


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _recipe_key(name: str, its: Field[Any], *, here_only: bool) -> Key:
    """A recipe's field as a config key; `here_only`: of a workload that is measured on this machine alone."""
    assert its.default is not MISSING  # noqa: S101 - every field of a recipe has a default
    derived, unset = _DERIVED.get(name, ("", None))
    return Key(
        name=name,
        rule=its.metadata["rule"],
        help=its.metadata["help"],
        default="" if derived else _as_text(its.default),
        defaults=_DEFAULTS_BY_TARGET.get(name, {}),
        example=_EXAMPLES.get(name, ""),
        derived=derived,
        unset=unset,
        targets=LOCAL if name == "saveModel" or here_only else TARGETS,
    )


def _price(name: str, example: str, help_text: str) -> Key:
    return Key(name=name, rule=number(0, 1000), example=example, derived="none", help=help_text)


_TARGET = Key(name="target", rule=choice(TARGETS), default="local", help="where training runs")
_DATASET = Key(
    name="dataset",
    rule=choice([AUTO], registry.DATASETS),
    default=AUTO,
    help="data set to train on; auto: digits on local, cifar10 on clusters and wherever datasetPath is set",
)
_RUNS = (
    Key(
        name="datasetPath",
        workload="cnn",
        rule=text("a folder cifar-10-batches-py"),
        example="data/cifar-10-batches-py",
        derived="none",
        help="folder with the files of CIFAR-10, instead of downloading them",
    ),
    Key(
        name="repeats",
        rule=whole(1, 100),
        default="4",
        help="runs of each arm; one decides nothing, and the verdict says how many would",
    ),
    Key(
        name="wideArm",
        rule=choice(["auto", "true", "false"]),
        default="auto",
        help="also measure one process with the CPUs of all workers; auto: where a node is known to hold it",
    ),
    Key(
        name="workersCurve",
        rule=listed(whole(1, 256)),
        default="none",
        example="1,2",
        help="numbers of workers, up to `workers`, with which Ray is measured, too: from which on do more not pay?",
    ),
    Key(name="nativeArm", rule=boolean(), default="true", help="also measure the framework's own distribution"),
    Key(
        name="tunedRay",
        workload="cnn",
        rule=boolean(),
        default="false",
        targets=LOCAL,
        help="also measure Ray with everything left out that a run on one machine does not need",
    ),
    Key(
        name="keepBaseline",
        rule=boolean(),
        default="false",
        help="keep finished baseline runs whose own recipe, code and host are unchanged; the verdict says how old",
    ),
    Key(
        name="runTimeoutMinutes",
        rule=whole(1, 10_080),
        default="60",
        help="a run that takes longer is stopped and fails; a download of its data and a pull of its image count, too",
    ),
    Key(
        name="allowOversubscription",
        rule=boolean(),
        default="false",
        help="measure although workers share cores; the verdict then says so",
    ),
    Key(
        name="rayDashboard",
        workload="cnn",
        rule=boolean(),
        default="false",
        targets=LOCAL,
        help="start Ray's dashboard on loopback during a ray run",
    ),
    Key(
        name="workerMemory",
        rule=quantity("512Mi"),
        default="1536Mi",
        help="memory of each worker, and of the baseline; wide has that of all workers; not enforced on local",
    ),
    Key(
        name="secretEnvironment",
        workload="script",
        targets=LOCAL,
        rule=environment_rule(),
        derived="none",
        example="HF_TOKEN=hf_x",
        unset="",
        help="likewise, set with --secret: in no log, result or plain state",
    ),
    _price("priceCpuHour", "0.048", "what one CPU costs an hour, in any currency: the comparison then has the cost"),
    _price("priceGibHour", "0.0053", "what one GiB of memory costs an hour, in the same currency"),
)


def _all_keys() -> dict[str, Key]:
    recipe: dict[str, Key] = {}
    for name in WORKLOADS:
        trained = named(name)
        for key, its in trained.recipe.settings().items():
            recipe.setdefault(key, _recipe_key(key, its, here_only=trained.here_only))
    recipe |= {"dataset": _DATASET}
    return {"target": _TARGET} | recipe | {key.name: key for key in (*_RUNS, *CLUSTER_KEYS)}


KEYS = _all_keys()
"""Every key by name, in the order of the docs."""
