"""The variables by which ranks of a script find each other, and the ports that these name; for the commands beside it,
in the user's own Python.

`addresses` are those of all ranks, host:port each. Standard library, and Python 3.9 or newer.
"""

from __future__ import annotations

import json
import socket
import sys


def hold_ports(count: int, host: str, family: int = socket.AF_INET) -> dict[int, socket.socket]:
    """Return free ports of `host` (of all addresses if it is empty), each with a socket that holds it until gRPC or
    PyTorch's store listens there seconds later: both can share a bound port, and an outgoing connection might take a
    port that nobody has bound. Only Linux allows this sharing; on other systems the sockets are closed."""
    holders = [socket.socket(family) for _ in range(count)]
    for holder in holders:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
    by_port = {int(holder.getsockname()[1]): holder for holder in holders}
    if not sys.platform.startswith("linux"):
        for holder in holders:
            holder.close()
    return by_port


def torchrun(addresses: list[str], rank: int) -> dict[str, str]:
    """Return all variables that torchrun sets and a library may read; the ranks on one machine are a group."""
    world = str(len(addresses))
    host, _, port = addresses[0].rpartition(":")
    hosts = [address.rpartition(":")[0] for address in addresses]
    own, groups = hosts[rank], list(dict.fromkeys(hosts))
    return {
        "MASTER_ADDR": host, "MASTER_PORT": port,
        "RANK": str(rank), "LOCAL_RANK": str(hosts[:rank].count(own)), "ROLE_RANK": str(rank),
        "GROUP_RANK": str(groups.index(own)), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": str(hosts.count(own)),
        "ROLE_WORLD_SIZE": world, "GROUP_WORLD_SIZE": str(len(groups)),
        "TORCHELASTIC_RUN_ID": "ray", "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip


def tf_config(addresses: list[str], rank: int) -> dict[str, str]:
    """Return TF_CONFIG in the form of TensorFlow's guide; an IPv6 address is in brackets, as gRPC expects."""
    pairs = [address.rpartition(":") for address in addresses]
    workers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, _, port in pairs]
    config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    return {"TF_CONFIG": json.dumps(config)}


TRACKER_AFTER = 2
"""XGBoost's tracker runs beside rank 0, on the port of rank 0 plus this number. On the port between them ranks send
their results to rank 0."""
RETRIES = 20
"""Attempts to reach the tracker, where each wait is two seconds longer than the one before: the pod of rank 0 may start
minutes after the pod of another rank."""


def xgboost(addresses: list[str], rank: int) -> dict[str, str]:
    """Return the variables of a rank of XGBoost, whose tracker runs in the pod of rank 0."""
    host, _, port = addresses[0].rpartition(":")
    tracker: dict[str, str | int] = {
        "dmlc_tracker_uri": host, "dmlc_tracker_port": int(port) + TRACKER_AFTER, "dmlc_retry": RETRIES,
    }  # fmt: skip
    return booster(addresses, rank, tracker)


def booster(addresses: list[str], rank: int, tracker: dict[str, str | int] | None = None) -> dict[str, str]:
    """Return the variable TRAINING_CLUSTER, with the addresses of all ranks, for a rank that is started without Ray. It
    is for code of this project, which hands the addresses on: XGBoost and LightGBM read no variables."""
    return {"TRAINING_CLUSTER": json.dumps({"addresses": addresses, "rank": rank, "tracker": tracker})}
