"""Tells each process of a run the addresses of all, and its own rank. Standard library only.

One form for all launchers, which every framework's own variables are made from.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

VARIABLE = "TRAINING_CLUSTER"
"""Environment variable by which a launcher passes the rendezvous to a process. It has a name of our own, because a
TF_CONFIG that the user has set describes another cluster."""


@dataclass(frozen=True)
class Rendezvous:
    """The addresses of a run's processes by rank, `host:port` each, and the rank of this one."""

    addresses: Sequence[str]
    rank: int

    def variable(self) -> dict[str, str]:
        """Return the environment variable that passes this rendezvous to a process."""
        return {VARIABLE: json.dumps(asdict(self))}


def from_environment(environment: Mapping[str, str] = os.environ) -> Rendezvous | None:
    """Return the rendezvous of this process from its environment; None if it is not one of several."""
    return Rendezvous(**json.loads(environment[VARIABLE])) if VARIABLE in environment else None


def tensorflow(addresses: Sequence[str], rank: int) -> dict[str, str]:
    """Return the environment variable TF_CONFIG for TensorFlow. IPv6 addresses get brackets, because gRPC would take
    the port for a part of the address.

    Source: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
    """
    pairs = [address.rpartition(":") for address in addresses]
    workers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, _, port in pairs]
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(cluster)}
