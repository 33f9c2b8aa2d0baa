"""The whole environment of one arm of a script: nothing else of the caller's reaches it. Standard library only."""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from training.contract.provenance import PROJECT
from training.launch import environment
from training.workloads.script.commands import ArmCommand

SITE = PROJECT / "training" / "workloads" / "script" / "observe" / "path"


def variables_of(arm: ArmCommand, needed: Mapping[str, str], ray_folder: Path, storage: str = "") -> dict[str, str]:
    """Return the environment variables of an arm: those that every run with that storage may have, those that the
    script needs, and the arm's own."""
    kept = environment.training(os.environ, storage)
    kept = {name: value for name, value in kept.items() if not environment.OWN.fullmatch(name)}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        **needed,
        **arm.variables,
        **own_ray(ray_folder),
        **environment.for_workers_of_ray(arm.command[0]),
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform.startswith("linux") else "lo0",
    }


def own_ray(folder: Path) -> dict[str, str]:
    """Return the variables for a Ray that the script starts, which has a private folder and a token of its own."""
    return {
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def observed_by(own: Path, steps: int, hang_seconds: int = 0) -> dict[str, str]:
    """Return the variables that have each process of the script observed, and the observer's files written to the
    folder `own`. Each rank ends after `steps` steps; 0 means at the script's end. A process that hangs writes where it
    is after `hang_seconds` seconds; 0 means never."""
    return {
        "PYTHONPATH": str(SITE),
        "TRAINING_OBSERVE": str(own),
        "TRAINING_OBSERVE_STEPS": str(steps),
        "TRAINING_OBSERVE_HANG_SECONDS": str(hang_seconds),
    }


def measured_into(progress: Path, *, epochs: int) -> dict[str, str]:
    """Return more variables for a measurement: where lines of its progress go, and the number of epochs that the script
    was given, 0 if it was given none."""
    return {"TRAINING_OBSERVE_PROGRESS": str(progress), "TRAINING_OBSERVE_EPOCHS": str(epochs)}


def decided_by(socket: Path, metric: str) -> dict[str, str]:
    """Return more variables for a trial that asks at this socket, at each report of the metric, whether it goes on."""
    return {"TRAINING_OBSERVE_SEARCH": str(socket), "TRAINING_OBSERVE_METRIC": metric}
