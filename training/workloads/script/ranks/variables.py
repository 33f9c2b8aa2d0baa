"""The variables by which ranks of a script find each other; for the commands beside it, in the user's own Python.

`addresses` are those of all ranks, host:port each. Standard library, and Python 3.9 or newer.
"""

from __future__ import annotations

import json


def torchrun(addresses: list[str], rank: int) -> dict[str, str]:
    """All that torchrun sets and a library may ask for; Lightning looks for the run's id. Ranks of one machine."""
    world = str(len(addresses))
    host, _, port = addresses[0].rpartition(":")
    return {
        "MASTER_ADDR": host, "MASTER_PORT": port,
        "RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank), "GROUP_RANK": "0",
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "ROLE_WORLD_SIZE": world, "GROUP_WORLD_SIZE": "1",
        "TORCHELASTIC_RUN_ID": "ray", "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip


def tf_config(addresses: list[str], rank: int) -> dict[str, str]:
    """What TensorFlow's guide has in TF_CONFIG."""
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(config)}


def booster(addresses: list[str], rank: int, tracker: dict[str, str | int] | None = None) -> dict[str, str]:
    """XGBoost and LightGBM have arguments for it, and no variables: the observer tells Ray's local mode of these."""
    return {"TRAINING_CLUSTER": json.dumps({"addresses": addresses, "rank": rank, "tracker": tracker})}
