"""Which rank this process is, of how many, as its environment says; and whether it has Ray."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SPREAD = "ray_worth_it_spread"
"""Name of the package that runs a script written for one process as ranks, and is loaded in their processes."""
CLUSTER = "TRAINING_CLUSTER"
"""Environment variable: all ranks' addresses and this one's rank, for frameworks without a variable of their own."""


def of_environment() -> tuple[int, int]:
    """Return the rank and the world size, from the package SPREAD, TF_CONFIG, CLUSTER or the variables of torchrun,
    whichever is there first; (0, 1) if there is none of these."""
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
    """Return the addresses of all ranks, the rank of this process, and the parameters of XGBoost's tracker; None if
    CLUSTER is not set."""
    return json.loads(os.environ[CLUSTER]) if CLUSTER in os.environ else None


def has_ray() -> bool:
    """Return whether this process has started Ray, or has joined a Ray cluster."""
    worker = sys.modules.get("ray._private.worker")
    return bool(worker and worker.is_initialized())


def has_joined(distributed: Any) -> bool:
    """Return whether this process is a member of a process group of PyTorch; `distributed`: torch.distributed or None.
    It asks the module that holds the group, because a script that was written for one process and runs as several ranks
    is told that it is alone."""
    return bool(
        distributed is not None and distributed.is_available() and distributed.distributed_c10d.is_initialized()
    )
