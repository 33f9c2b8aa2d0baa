"""The keys of a stack in sections, one definition each: its default, rule and meaning, and a valid value.

Keys of a cluster are in `infra.settings.cluster`; those of a workload in its recipe, and in the module that
`infra.settings.table` names for it. Checks between keys: `infra.settings.settings`, `infra.settings.storage`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infra.settings import rules
from infra.settings.key import LOCAL, OF_S3, OWN_PROCESSES, RAY, TARGETS, Target, setting
from infra.settings.rules import Quantity
from training.contract.recipe import MOST_WORKERS, WORKLOADS
from training.contract.repeats import AUTO, FIRST_REPEATS, MOST_AUTO_REPEATS, Repeats
from training.contract.rules import boolean, choice, number, text, whole

ON, OFF = "true", "false"
"""The values of `wideArm` other than `auto`, which leaves the decision to the place."""


@dataclass(frozen=True, kw_only=True)
class ChoiceSettings:
    """The two keys that decide which other keys have an effect."""

    target: Target = setting("local", choice(TARGETS), "where training runs")
    workload: str = setting(
        "",
        choice(WORKLOADS),
        "what is trained",
        derived="`script` where that key is set, else `cnn`",
        example="cnn",
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of which runs are made, and of the time, CPUs and memory that each may use."""

    repeats: Repeats = setting(
        str(FIRST_REPEATS),
        rules.repeats(),
        f"runs of each arm; one decides nothing;"
        f" {AUTO}: {FIRST_REPEATS}, then more until it is decided, at most {MOST_AUTO_REPEATS}",
    )
    wide_arm: Literal["auto", "true", "false"] = setting(
        "auto",
        choice(["auto", ON, OFF]),
        "also measure one process with the CPUs of all workers; auto: if a node is known to have room",
    )
    workers_curve: tuple[int, ...] = setting(
        "none",
        rules.listed(whole(1, MOST_WORKERS)),
        "also measure Ray with these numbers of workers, up to `workers`, to see when more stop paying off",
        example="1,2",
    )
    native_arm: bool = setting("true", boolean(), "also measure the framework's own distribution")
    keep_baseline: bool = setting(
        "false",
        boolean(),
        "keep finished baseline runs if their own recipe, code and host are unchanged; the verdict says their age",
    )
    run_timeout_minutes: int = setting(
        "60",
        whole(1, 10_080),
        "a run that takes longer fails; downloads of its data and image count, too",
    )
    budget_minutes: int | None = setting(
        "",
        whole(1, 10_080),
        "minutes that a measurement may take; if it will take longer, a preview says what to leave out; with repeats"
        " auto one up begins no repeat after the fourth that would probably end later",
        derived="none",
        example="15",
    )
    allow_oversubscription: bool = setting(
        "false", boolean(), "measure although workers share cores; the verdict then says so"
    )
    worker_memory: Quantity = setting(
        "1536Mi",
        rules.quantity("512Mi"),
        "memory of each worker, and of the baseline; wide has that of all workers; not enforced on local",
    )


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """Where runs keep files that outlive them. Keys of storage that only clusters have are in `ClusterSettings`."""

    address: str | None = setting(
        "",
        rules.storage(),
        "where runs keep checkpoints, models and a script's files",
        name="storage",
        targets=OWN_PROCESSES,
        derived="none",
        example="s3://my-bucket/training",
    )
    endpoint: str | None = setting(
        "",
        rules.matching(r"https?://[^/\s?#@]+", "http:// or https://, a host, and its port if it is not the usual one"),
        "server of storage s3://, if it is not AWS",
        name="storageEndpoint",
        targets=OWN_PROCESSES,
        needs={"storage": (OF_S3,)},
        derived="AWS' own",
        example="https://minio.example.com:9000",
    )
    region: str | None = setting(
        "",
        rules.matching("[a-z0-9-]+", "a region's name"),
        "region of the bucket of storage s3://",
        name="storageRegion",
        targets=OWN_PROCESSES,
        needs={"storage": (OF_S3,)},
        derived="as the bucket says",
        example="eu-central-1",
    )
    credentials: Mapping[str, str] = setting(
        "",
        rules.credentials(),
        "credentials for storage s3://, set with --secret",
        name="storageCredentials",
        targets=OWN_PROCESSES,
        needs={"storage": (OF_S3,)},
        derived="on local your own, as AWS' tools find them",
        example="AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b",
        unset={},
        secret=True,
    )
    role: str | None = setting(
        "",
        rules.matching(r"arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+", "the ARN of a role"),
        "role that your own credentials assume for each run",
        name="storageRole",
        targets=OWN_PROCESSES,
        needs={"storage": (OF_S3,)},
        derived="none",
        example="arn:aws:iam::123456789012:role/training",
    )


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """The settings that only runs on this machine have."""

    allow_open_ports: bool = setting(
        "false",
        boolean(),
        "run with storage s3:// or gs:// although other machines reach its ports, which ask for no password",
        targets=LOCAL,
        needs={"storage": ()},
    )


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """The settings of what the comparison adds to the results: prices, spot capacity and tracking."""

    price_cpu_hour: float | None = setting(
        "",
        number(0, 1000),
        "price of one CPU for an hour, in any currency; the comparison then has the cost",
        example="0.048",
        derived="none",
    )
    price_gib_hour: float | None = setting(
        "",
        number(0, 1000),
        "price of one GiB of memory for an hour, in the same currency",
        example="0.0053",
        derived="none",
    )
    price_gpu_hour: float | None = setting(
        "",
        number(0, 10_000),
        "price of one GPU for an hour, in the same currency",
        targets=OWN_PROCESSES,
        needs={"workerGpus": ()},
        example="2.5",
        derived="none",
    )
    price_spot_factor: float | None = setting(
        "",
        number(0.01, 1),  # so low that whatever hardly ever ends costs more on spot
        "price of spot capacity ÷ price on demand; with interruptionsPerHour the comparison says whether it pays",
        example="0.35",
        derived="none",
        needs={"interruptionsPerHour": ()},
    )
    interruptions_per_hour: float | None = setting(
        "",
        number(0, 1000),
        "interruptions an hour of one worker on spot capacity, with priceSpotFactor",
        example="0.05",
        derived="none",
        needs={"priceSpotFactor": ()},
    )
    tracking_uri: str | None = setting(
        "",
        rules.server(),
        "MLflow server to which each comparison is written with its runs",
        derived="none",
        example="http://mlflow.example.com:5000",
    )


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """The settings that only an existing Ray cluster has."""

    ray_address: str = setting(
        "",
        rules.matching(
            r"https?://[^\s/@:?#]+(:\d{1,5})?(/[^\s@?#]*)?",
            "the http:// or https:// address of Ray's dashboard, which takes jobs; not ray://, and no password in it",
        ),
        "dashboard of the Ray cluster that runs the measurement",
        derived="none",
        example="http://ray-head.example.com:8265",
        targets=RAY,
    )
    ray_token: str = setting(
        "",
        text("the cluster's token"),
        "token of that cluster, set with --secret, if it asks for one",
        derived="none",
        example="0123456789abcdef",
        unset="",
        targets=RAY,
        secret=True,
    )
