"""Which rank this process is, of how many, as its environment says; and whether it has Ray."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SPREAD = "ray_worth_it_spread"
"""The package that runs a script for one process as ranks, in their processes."""
CLUSTER = "TRAINING_CLUSTER"
"""Environment variable: the addresses of all ranks and which of them this one is, where no framework's own says it."""


def of_environment() -> tuple[int, int]:
    """Return the rank and world as what distributes a plain script says, or as TF_CONFIG, CLUSTER or torchrun's
    variables have them; 0 of 1 without."""
    if SPREAD in sys.modules:
        return sys.modules[SPREAD].ranks  # type: ignore[no-any-return]
    if "TF_CONFIG" in os.environ:
        try:
            config = json.loads(os.environ["TF_CONFIG"])
            return int(config["task"]["index"]), len(config["cluster"]["worker"])
        except (ValueError, KeyError, TypeError):
            return 0, 1
    by_cluster = cluster()
    if by_cluster:
        return by_cluster["rank"], len(by_cluster["addresses"])
    try:
        return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
    except ValueError:  # a script may have variables of these names for something else
        return 0, 1


def cluster() -> dict[str, Any] | None:
    """Return all ranks' addresses, this one's rank, and XGBoost's tracker; None where nothing is told by CLUSTER."""
    return json.loads(os.environ[CLUSTER]) if CLUSTER in os.environ else None


def has_ray() -> bool:
    """Return whether this process has started Ray, or joined one."""
    worker = sys.modules.get("ray._private.worker")
    return bool(worker and worker.is_initialized())
