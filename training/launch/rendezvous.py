"""Tells each process of a run the addresses of all, and its own rank. Standard library only.

One form for all launchers, which every framework's own variables are made from.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

VARIABLE = "TRAINING_CLUSTER"
"""Environment variable by which a launcher passes it to a process. One of our own: a TF_CONFIG that the user has set
describes another cluster."""


@dataclass(frozen=True)
class Rendezvous:
    """The addresses of a run's processes by rank, `host:port` each, and the rank of this one."""

    addresses: Sequence[str]
    rank: int

    def variable(self) -> dict[str, str]:
        """Return the environment that tells a process of it."""
        return {VARIABLE: json.dumps(asdict(self))}


def from_environment(environment: Mapping[str, str] = os.environ) -> Rendezvous | None:
    """Read the rendezvous of this process; None if it is not one of several."""
    return Rendezvous(**json.loads(environment[VARIABLE])) if VARIABLE in environment else None


def tensorflow(addresses: Sequence[str], rank: int) -> dict[str, str]:
    """Return TensorFlow's TF_CONFIG, in which an IPv6 address has brackets: gRPC would take its port for a part of it.

    Source: https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
    """
    pairs = [address.rpartition(":") for address in addresses]
    workers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, _, port in pairs]
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(cluster)}
