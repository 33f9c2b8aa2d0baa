"""The environment of a trial's process, by where it runs. Standard library only.

On this machine the plan has all of it. A pod's trial has its pod's variables, of which the plan knows nothing: Ray's
workers are in other pods than the driver. What leads to the cluster stays with who searches: a trial knows no Ray.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from training.contract.provenance import NODE
from training.launch import environment
from training.launch.environment import JOB_CONFIG, OVERRIDE, SECRET, SECRET_NAMES
from training.launch.pod.unpacked_modules import image_path
from training.workloads.search.plan import Plan

OF_SEARCH = re.compile("(RAY|TUNE|OPTUNA)_.+|JOB_COMPLETION_INDEX|PYTHONPATH")
"""Matches the names of variables that belong to the search and that trials do not get."""
DRIVER_CPUS = 1
"""Logical CPUs of a driver, which waits for its workers and computes nothing: Ray's own default."""


def secret_variables() -> dict[str, str]:
    """Return this process's secret variables, which no other may see; in a pod SECRET_NAMES lists them."""
    if SECRET_NAMES in os.environ:
        return {name: os.environ[name] for name in os.environ[SECRET_NAMES].split(",") if name}
    variables: dict[str, str] = json.loads(os.environ.get(SECRET, "{}"))
    return variables


def of_trial(plan: Plan, observer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a trial, observed by these variables, without those of the trial's Ray."""
    if not plan.in_pods:
        return {**plan.variables, **secret_variables(), **observer}
    path = os.pathsep.join((observer["PYTHONPATH"], *image_path()))
    return {
        **_of_pod(),
        "PYTHONUNBUFFERED": "1",
        **plan.variables,
        **secret_variables(),
        **observer,
        "PYTHONPATH": path,
    }


def _of_pod() -> dict[str, str]:
    def is_left_out(name: str) -> bool:
        return bool(OF_SEARCH.fullmatch(name) or environment.OWN.fullmatch(name)) and name != NODE

    return {name: value for name, value in os.environ.items() if not is_left_out(name)}


@dataclass(frozen=True, kw_only=True)
class SharedRay:
    """The Ray in which Tune runs, for trials of several workers: a trial joins this Ray, which places the trial's
    workers.

    Such a trial is a driver (https://docs.ray.io/en/latest/train/user-guides/hyperparameter-optimization.html), and has
    a logical CPU for as long as it runs. If Ray had only the CPUs of the workers, the workers of a trial would wait for
    the CPU of their driver, for ever and without a message. So a Ray that is started here has one more CPU for each
    driver.
    """

    address: str
    """Address of Ray's head, host:port."""
    token_path: str
    """File of the token that this Ray asks for."""

    def variables(self, python: str, public: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that a driver needs to join this Ray. The driver's workers get the variables `public`,
        and the interpreter `python`, because Ray was started by another one."""
        runtime = {"env_vars": dict(public), "py_executable": shlex.quote(python)}
        return {
            "RAY_ADDRESS": self.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": self.token_path,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",  # by default lines that differ in their numbers alone are one, with a count
            "RAY_COLOR_PREFIX": "0",
            "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # by default what a worker prints comes twice: from it, and as a log
            JOB_CONFIG: json.dumps({"runtime_env": runtime}),
            OVERRIDE: "1",
        }
