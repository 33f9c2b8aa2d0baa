"""One run on a Ray cluster as a Pulumi dynamic resource. It differs from a run on this machine
(`infra.places.local.run`) in its guarded process, which submits a job and follows it.

The state holds the provider pickled by reference: this module and its class keep their names for ever.
"""

import os
import sys
from pathlib import Path
from typing import Any

from infra.places.local import guard
from infra.places.local.run import TrainingRun, TrainingRunProvider
from training.contract import result
from training.contract.recipe import canonical, from_texts
from training.launch import environment
from training.launch.environment import SECRET
from training.launch.ray.jobs_api import TOKEN, is_here


class RayJobRun(TrainingRun, module="ray", name="Run"):
    """One run of one arm as a job of a Ray cluster."""

    @staticmethod
    def provider() -> "RayJobRunProvider":
        """Return the provider that submits the run."""
        return RayJobRunProvider()


class RayJobRunProvider(TrainingRunProvider):
    """Creates a run by submitting its job, which it stops if the update stops; else as the provider of runs here."""

    def command(self, props: dict[str, Any], folder: Path) -> list[str]:
        """Return the command that starts the guard with the process that submits and follows the job."""
        return guard.command(
            props["timeoutMinutes"] * 60,
            folder,
            *([] if is_here(props["address"]) else ["--elsewhere"]),  # this machine has to be the run's alone
            *("--", sys.executable, "-m", "infra.places.ray.run_job"),
            *("--address", props["address"], "--stack", props["stack"], "--result", str(folder / result.NAME)),
            *(props["arm"], canonical(from_texts(props["recipe"]))),
        )

    def variables(self, props: dict[str, Any]) -> dict[str, str]:
        """Return that process's environment variables, with the cluster's token and the script's secret variables."""
        variables = {TOKEN: props.get("token"), SECRET: props.get("secretEnvironment"), "PYTHONUNBUFFERED": "1"}
        return environment.allowed(os.environ) | {name: value for name, value in variables.items() if value}
