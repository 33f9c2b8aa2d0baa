"""Every config key: its rule, its default for each target, its meaning, and a valid value.

The config table in the docs and the declarations in Pulumi.yaml are generated from this. The rules and meanings of a
recipe's keys are in its workload; a workload's other settings, in `OF_WORKLOAD`; checks between keys, in
`infra.settings.checks`.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from infra.settings.cluster_table import CLUSTER_KEYS
from infra.settings.key import LOCAL, OWN_PROCESSES, TARGETS, Key, Target
from infra.settings.rules import credentials, listed, matching, quantity, server, storage
from training.contract.recipe import WORKLOADS
from training.contract.rules import boolean, choice, number, whole
from training.contract.workload import named

if TYPE_CHECKING:
    from infra.settings.checks import Check
    from infra.settings.draft import Draft
    from training.contract.workload import Installed

OF_WORKLOAD = {"cnn": "infra.settings.cnn", "script": "infra.settings.script"}
"""Modules with a workload's settings in addition to its recipe, `OWN`; only the chosen one is loaded."""


@dataclass(frozen=True, kw_only=True)
class OfWorkload:
    """A workload's settings in addition to its recipe."""

    keys: tuple[Key, ...] = ()
    """Keys in addition to the recipe's; a key of the same name replaces the recipe's."""
    derived: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """Recipe keys without a default: the value used then, in words, and as a value (None if `recipe` returns it)."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Examples of recipe keys whose default is no example."""
    defaults: Mapping[str, Mapping[Target, str]] = field(default_factory=dict)
    """Recipe keys whose default on some target differs from the recipe's own."""
    local_only: tuple[str, ...] = ()
    """Recipe keys that have no effect on a cluster."""
    checks: "tuple[Check, ...]" = ()
    """The checks between its keys."""
    checks_where: "Callable[[Installed], tuple[Check, ...]]" = lambda _: ()
    """Returns checks that depend on the packages of the pods' image; None if its runs are on this machine."""
    recipe: "Callable[[Draft], Mapping[str, Any]]" = lambda _: {}
    """Returns recipe keys whose value other keys determine."""
    secrets: "Callable[[Draft], Mapping[str, str]]" = lambda _: {}
    """Returns the secret variables of its runs."""


def of_workload(name: str) -> OfWorkload:
    """Return a workload's settings in addition to its recipe; empty for one that is not in `OF_WORKLOAD`."""
    own: OfWorkload = import_module(OF_WORKLOAD[name]).OWN if name in OF_WORKLOAD else OfWorkload()
    return own


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _recipe_key(name: str, field: Field[Any], own: OfWorkload) -> Key:
    """Return a recipe's field as a config key."""
    assert field.default is not MISSING  # noqa: S101 - every field of a recipe has a default
    derived, unset = own.derived.get(name, ("", None))
    return Key(
        name=name,
        rule=field.metadata["rule"],
        help=field.metadata["help"],
        default="" if derived else _as_text(field.default),
        defaults=own.defaults.get(name, {}),
        example=own.examples.get(name, ""),
        derived=derived,
        unset=unset,
        targets=LOCAL if name in own.local_only else TARGETS,
    )


def _price(name: str, example: str, help_text: str) -> Key:
    return Key(name=name, rule=number(0, 1000), example=example, derived="none", help=help_text)


_TARGET = Key(name="target", rule=choice(TARGETS), default="local", help="where training runs")
_WORKLOAD = Key(
    name="workload",
    rule=choice(WORKLOADS),
    derived="`script` where that key is set, else `cnn`",
    example="cnn",
    help="what is trained",
)
_RUNS = (
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
        help="also measure one process with the CPUs of all workers; auto: if a node is known to have room for it",
    ),
    Key(
        name="workersCurve",
        rule=listed(whole(1, 256)),
        default="none",
        example="1,2",
        help="also measure Ray with these numbers of workers, up to `workers`: it shows when more stop paying off",
    ),
    Key(name="nativeArm", rule=boolean(), default="true", help="also measure the framework's own distribution"),
    Key(
        name="keepBaseline",
        rule=boolean(),
        default="false",
        help="keep finished baseline runs if their own recipe, code and host are unchanged; the verdict says their age",
    ),
    Key(
        name="runTimeoutMinutes",
        rule=whole(1, 10_080),
        default="60",
        help="a run that takes longer is stopped and fails; a download of its data and a pull of its image count, too",
    ),
    Key(
        name="budgetMinutes",
        rule=whole(1, 10_080),
        default="",
        derived="none",
        example="15",
        help="minutes that a measurement may take; if it will take longer, a preview says what to leave out",
    ),
    Key(
        name="allowOversubscription",
        rule=boolean(),
        default="false",
        help="measure although workers share cores; the verdict then says so",
    ),
    Key(
        name="workerMemory",
        rule=quantity("512Mi"),
        default="1536Mi",
        help="memory of each worker, and of the baseline; wide has that of all workers; not enforced on local",
    ),
    Key(
        name="storage",
        targets=OWN_PROCESSES,
        rule=storage(),
        derived="none",
        example="s3://my-bucket/training",
        help="where runs keep checkpoints, models and a script's files after they have ended",
    ),
    Key(
        name="storageEndpoint",
        targets=OWN_PROCESSES,
        rule=matching(r"https?://[^/\s?#@]+", "http:// or https://, a host, and its port if it is not the usual one"),
        derived="AWS' own",
        example="https://minio.example.com:9000",
        help="server of storage s3://, if it is not AWS",
    ),
    Key(
        name="storageRegion",
        targets=OWN_PROCESSES,
        rule=matching("[a-z0-9-]+", "a region's name"),
        derived="as the bucket says",
        example="eu-central-1",
        help="region of the bucket of storage s3://",
    ),
    Key(
        name="storageCredentials",
        targets=OWN_PROCESSES,
        rule=credentials(),
        derived="on local your own, as AWS' tools find them",
        example="AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b",
        unset={},
        help="credentials for storage s3://, set with --secret; they are in no log, result or plain state",
        secret=True,
    ),
    Key(
        name="storageRole",
        targets=OWN_PROCESSES,
        rule=matching(r"arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+", "the ARN of a role"),
        derived="none",
        example="arn:aws:iam::123456789012:role/training",
        help="role that your own credentials assume for each run, for runTimeoutMinutes plus 15 minutes",
    ),
    Key(
        name="allowOpenPorts",
        targets=LOCAL,
        rule=boolean(),
        default="false",
        help="run with storage s3:// or gs:// although other machines reach its ports, which ask for no password",
    ),
    _price("priceCpuHour", "0.048", "price of one CPU for an hour, in any currency; the comparison then has the cost"),
    _price("priceGibHour", "0.0053", "price of one GiB of memory for an hour, in the same currency"),
    Key(
        name="trackingUri",
        rule=server(),
        derived="none",
        example="http://mlflow.example.com:5000",
        help="MLflow server to which each comparison is written with its runs, after they have ended",
    ),
)


_COMMON = {key.name: key for key in (*_RUNS, *CLUSTER_KEYS)}


def _own_keys(workload: str) -> dict[str, Key]:
    """Return the keys of a recipe, and of its workload."""
    own = of_workload(workload)
    recipe = {name: _recipe_key(name, field, own) for name, field in named(workload).recipe.settings().items()}
    return recipe | {"workload": _WORKLOAD} | {key.name: key for key in own.keys}


@cache
def keys_of(workload: str) -> Mapping[str, Key]:
    """Return the keys of a stack that trains this workload, by name; no other workload is loaded."""
    return {"target": _TARGET} | _own_keys(workload) | _COMMON


@cache
def every_key() -> Mapping[str, Key]:
    """Return every key by name, in the order of the docs."""
    own: dict[str, Key] = {}
    for workload in WORKLOADS:
        own = _own_keys(workload) | own
    in_order = {name: own[name] for workload in WORKLOADS for name in _own_keys(workload)}
    return {"target": _TARGET} | in_order | _COMMON
