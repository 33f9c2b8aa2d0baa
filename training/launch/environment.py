"""Sets up a training process before its framework is imported: environment variables, CPUs and threads.

The same in every arm. Only listed variables of the caller's environment reach a run: docs/adr/0011.
"""

import gc
import json
import os
import re
import shlex
import tempfile
from collections.abc import Mapping

from training.contract.provenance import allowed_cpus
from training.contract.workload import Workload
from training.machine import topology

SYSTEM = re.compile(
    "PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE|LC_[A-Z]+|LD_LIBRARY_PATH|NIX_LD|NIX_LD_LIBRARY_PATH"
    "|PYTHON(HASHSEED|UTF8|IOENCODING|UNBUFFERED|DONTWRITEBYTECODE|FAULTHANDLER)"
)
"""Variables by which a process finds programs, libraries, its folders and its language."""

DOWNLOADING = re.compile("(?i:http|https|all|no)_(?i:proxy)|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE")
"""Variables by which data are fetched before a run. The training does not get them: gRPC would use a proxy even for
127.0.0.1, and a proxy's address may hold a password."""

TRUSTING = re.compile("SSL_CERT_(FILE|DIR)")
"""Those of the variables in DOWNLOADING that name certificate authorities. Arrow reads them, so a run that stores
something over a network keeps them."""

STORING = re.compile("AWS_[A-Z0-9_]+|GOOGLE_APPLICATION_CREDENTIALS")
"""Variables by which S3 and Google Cloud Storage are reached. Only a run that stores something there gets them. They
hold credentials, and are in no result."""

CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""The variables with AWS credentials, which belong together; all but the first are secret."""

JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable in which Ray passes the environment of a job's workers to the job's driver."""

OVERRIDE = "RAY_OVERRIDE_JOB_RUNTIME_ENV"
"""Variable; if it is set, a script's own `ray.init(runtime_env=…)` takes precedence over its job's, and is no error."""

OWN = re.compile("TRAINING_[A-Z_]+")
"""Variables by which this project's processes pass data to each other."""

SECRET = "TRAINING_SECRET_ENVIRONMENT"  # noqa: S105 (its name)
"""Variable that passes secret variables to a run, as a JSON object."""

SECRET_NAMES = "TRAINING_SECRET_NAMES"  # noqa: S105 (its name)
"""Variable of a pod with the names of its secret variables, separated by commas. The pod's specification has each of
these variables."""

FILES = "TRAINING_FILES"
"""Variable of a pod with the path of the file that holds what a run needs besides the image."""

RAY_JOB = "TRAINING_RAY_JOB"
"""Variable that is set in a job of an existing Ray cluster and its workers, which share a node with others."""

BESIDE_SCRIPT = ".ray-worth-it"
"""Folder of the project's modules in the folder of a job of an existing Ray cluster, if a script was sent with them."""

IN_OTHER_IMAGE = "/ray-worth-it"
"""Folder of the project's modules in a pod whose image this project did not build; no image has such a folder."""

SECRET_FILE = "TRAINING_SECRET_FILE"  # noqa: S105 (its name)
"""Variable of a job of an existing Ray cluster: the path of the JSON file with its secret variables."""

RESULTS = "TRAINING_RESULTS"
"""Variable of a job of an existing Ray cluster with the folder of its result, which in a pod is a fixed one."""

LONGEST_TEMPORARY = 24
"""Most characters of the path of a temporary folder. A socket's path ends at 107 (103 on macOS), and there follow 15 of
ours and up to 64 of Ray's: `/ray-xxxxxxxx/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store`."""

STEERING = re.compile(
    "TF_(ENABLE|DISABLE|XLA|NUM|ONEDNN|MKL|USE|SET_ONEDNN|DETERMINISTIC|CPU|EAGER|GRPC|AUTO_MIXED_PRECISION|SYNC_ON"
    "|OVERRIDE_GLOBAL|DATA_EXPERIMENT|CPP)_[A-Z0-9_]+|XLA_FLAGS"
    "|(OMP|KMP|GOMP|MKL|OPENBLAS|DNNL|ONEDNN|VECLIB|NUMEXPR|MALLOC|TCMALLOC)_[A-Z0-9_]+|MALLOC_CONF|GLIBC_TUNABLES"
    "|LD_PRELOAD|RAY_TRAIN_[A-Z0-9_]+|RAY_[a-z][a-z0-9_]*"
)
"""Variables by which users tune TensorFlow, the libraries below it, and Ray (whose own settings are in lower case after
RAY_), as documented. TF_CONFIG and RAY_ADDRESS are not among them, because they name other clusters, nor is what
Terraform reads: TF_VAR_… and TF_TOKEN_… hold secrets, and these variables are recorded in results."""


def allowed(environment: Mapping[str, str], storage: str = "") -> dict[str, str]:
    """Return the variables of `environment` that a run with this storage may have before its data are fetched."""
    lists = (SYSTEM, OWN, STEERING, DOWNLOADING, *([STORING] if is_remote(storage) else []))
    return {key: value for key, value in environment.items() if any(names.fullmatch(key) for names in lists)}


def training(environment: Mapping[str, str], storage: str = "") -> dict[str, str]:
    """Return the variables of `environment` that a run with this storage may have while it trains."""
    return {key: value for key, value in allowed(environment, storage).items() if not _is_over(key, storage)}


def _is_over(key: str, storage: str) -> bool:
    """Return whether a run may no longer have this variable once its data are fetched: it is a variable for
    downloading. With remote storage those for certificates stay."""
    return bool(DOWNLOADING.fullmatch(key)) and not (is_remote(storage) and TRUSTING.fullmatch(key))


SECRET_NAME = re.compile("(?i)(token|secret|password|passwd|credentials?|(api|access|private)_?key)(_|$)")
"""Names of variables that hold secrets, and are in no result even if a framework's names begin in the same way."""


def steering(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that steer frameworks, without secrets."""
    return {
        key: environment[key] for key in sorted(environment) if STEERING.fullmatch(key) and not SECRET_NAME.search(key)
    }


def is_remote(storage: str) -> bool:
    """Return whether the storage is reached over a network, and is not a folder."""
    return "://" in storage


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of `environment` that are secret AWS credentials."""
    return {key: environment[key] for key in CREDENTIALS[1:] if key in environment}


def let_in(environment: Mapping[str, str], credentials: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with its AWS credentials replaced by `credentials`; unchanged if `credentials` is empty."""
    replaced = CREDENTIALS if credentials else ()
    return {key: value for key, value in environment.items() if key not in replaced} | dict(credentials)


def keep_allowed(storage: str = "") -> None:
    """Remove from this process's environment, and so from its children's, the variables that a run with this storage
    may not have."""
    for key in os.environ.keys() - allowed(os.environ, storage).keys():
        del os.environ[key]


def end_downloading(storage: str = "") -> None:
    """Remove from this process's environment, and so from its children's, the variables that a run with this storage
    needs only to fetch data."""
    for key in list(os.environ):
        if _is_over(key, storage):
            del os.environ[key]


def variables(workload: Workload, threads: int) -> dict[str, str]:
    """Return the environment variables for a process of the workload that computes with `threads` threads."""
    return {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "-1", **workload.variables}


def share_of_cpus(cpus: list[int], rank: int, count: int) -> list[int]:
    """Return the `count` CPUs that rank `rank` gets of `cpus`, which are in `topology.order`. If there are too few CPUs
    for all ranks, the next ranks begin again with the first CPU."""
    return sorted({cpus[(rank * count + i) % len(cpus)] for i in range(count)})


def prepare(workload: Workload, threads: int, rank: int, cpus: list[int] | None) -> bool:
    """Set the environment of this process for `rank`, and bind the process to its share of `cpus`. Return True if it
    was bound.

    With None, and on systems without affinity, the process is not bound. None is given in pods, where the CPU limit
    holds the process.
    """
    os.environ.update(variables(workload, threads))
    if not cpus or not hasattr(os, "sched_setaffinity"):
        return False
    os.sched_setaffinity(0, share_of_cpus(topology.order(cpus), rank, threads))
    return True


def defer_garbage_collection() -> None:
    """Turn garbage collection off until `resume_garbage_collection`: what imports and tracing create stays anyway."""
    gc.disable()


def resume_garbage_collection() -> None:
    """Turn garbage collection on again for objects that are created from now on; it never checks existing ones."""
    gc.freeze()
    gc.enable()


def bound_cpus() -> list[int] | None:
    """Return the CPUs this process may use; None where the system has no affinity."""
    return allowed_cpus() if hasattr(os, "sched_getaffinity") else None


def for_workers_of_ray(python: str) -> dict[str, str]:
    """Return variables that make Ray start its workers with this Python, if the interpreter's path must be quoted in a
    shell; else {}.

    Ray 2.60 puts the path into a line of bash without quotes (`ray/_private/runtime_env/context.py`).
    """
    if shlex.quote(python) == python:
        return {}
    return {JOB_CONFIG: json.dumps({"runtime_env": {"py_executable": shlex.quote(python)}}), OVERRIDE: "1"}


def short_folder() -> str | None:
    """Return None for the system's temporary folder, or /tmp if that folder's path is too long for Ray's sockets."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"  # noqa: S108


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, short enough for Ray's sockets; a Ray that is killed may leave files there."""
    room = LONGEST_TEMPORARY - len(tempfile.gettempdir()) - len("/r-xxxxxxxx")
    where = None if room >= 0 else "/tmp"  # noqa: S108
    return tempfile.TemporaryDirectory(prefix="r-", dir=where, ignore_cleanup_errors=True)
