"""The environment of a trial's process, by where it runs. Standard library only.

On this machine the plan has all of it. A pod's trial has its pod's variables, of which the plan knows nothing: Ray's
workers are in other pods than the driver. What leads to the cluster stays with who searches: a trial knows no Ray.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from training.contract.provenance import NODE, PROJECT
from training.launch import environment
from training.launch.environment import SECRET, SECRET_NAMES
from training.launch.pod.unpacked_modules import RAYS_PACKAGES
from training.workloads.search.plan import Plan

OF_SEARCH = re.compile("(RAY|TUNE|OPTUNA)_.+|JOB_COMPLETION_INDEX|PYTHONPATH")
"""Variables of who searches."""


def secret_variables() -> dict[str, str]:
    """Return the variables of this process that nobody else may see: each by its name in a pod."""
    if SECRET_NAMES in os.environ:
        return {name: os.environ[name] for name in os.environ[SECRET_NAMES].split(",") if name}
    variables: dict[str, str] = json.loads(os.environ.get(SECRET, "{}"))
    return variables


def of_trial(plan: Plan, observer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a trial that is observed by these variables, without those of its Ray."""
    if not plan.in_pods:
        return {**plan.variables, **secret_variables(), **observer}
    path = os.pathsep.join((observer["PYTHONPATH"], *_own_path()))
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


def _own_path() -> list[str]:
    """Return the folders that the image itself names in PYTHONPATH, without this project's."""
    folders = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return [str(each) for each in folders if each.name != RAYS_PACKAGES and each.resolve() != PROJECT]
