"""The Ray that Tune runs in, for trials of several workers: a trial joins it, and it places the workers.

Such a trial is a driver: https://docs.ray.io/en/latest/train/user-guides/hyperparameter-optimization.html has it so.
A driver has a logical CPU for as long as it runs. Where those of the workers are all that there are, the workers of its
trial wait for that one, for ever and without a word. So a Ray that is started here has one more for each driver.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from training.launch.environment import JOB_CONFIG, OVERRIDE

DRIVER_CPUS = 1
"""Logical CPUs of a driver, Ray's own default for it: it waits for its workers, and computes nothing."""


@dataclass(frozen=True, kw_only=True)
class SharedRay:
    """A Ray that runs, for a trial to join."""

    address: str
    """Of its head, host:port."""
    token_path: str
    """File of the token that it asks for."""

    def variables(self, python: str, public: Mapping[str, str]) -> dict[str, str]:
        """Return what a driver needs to join it. Its workers get the variables `public`, and the interpreter `python`:
        Ray was started by another one."""
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
