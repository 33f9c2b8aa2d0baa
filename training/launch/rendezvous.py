"""How the processes of a run find each other: their addresses, and which of them this one is. Standard library only.

One form for all launchers, which every framework's own variables are made from.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

VARIABLE = "TRAINING_CLUSTER"
"""Environment variable by which a launcher tells a process of it. One of our own: a TF_CONFIG that the user has set is
somebody else's cluster."""


@dataclass(frozen=True)
class Rendezvous:
    """The addresses of a run's processes by rank, `host:port` each, and the rank of this one."""

    addresses: Sequence[str]
    rank: int

    def variable(self) -> dict[str, str]:
        """The environment that tells a process of it."""
        return {VARIABLE: json.dumps(asdict(self))}


def from_environment(environment: Mapping[str, str] = os.environ) -> Rendezvous | None:
    """What this process was told; None where it is no process of a run with others."""
    return Rendezvous(**json.loads(environment[VARIABLE])) if VARIABLE in environment else None


def tensorflow(addresses: Sequence[str], rank: int) -> dict[str, str]:
    """Where TensorFlow looks. Source: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG"""
    cluster = {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(cluster)}
