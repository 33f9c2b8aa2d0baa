"""Finds the nodes of a Ray cluster on which a process was killed for its memory since the last call.

    python -P -m training.launch.ray.memory_kills

Either the system killed it: such a worker can report nothing, its pod goes on where the system ends single processes
(cgroups of version 1), and Ray's driver sees a broken connection. Or Ray did, which watches the memory of each node:
the driver reports it if that worker is the first to be missed. So all nodes and Ray's own list of workers are asked
when a run has failed; Ray's key-value store has what was known the last time, because pods outlive a run. The last line
that is printed has, as JSON, the memory in bytes that such a node may have, null where nothing limits it, by its
address.
"""

import json
import logging
import sys

import ray
from ray.experimental import internal_kv
from ray.util.state import list_workers
from ray.util.state.exception import RayStateApiException

from training.launch.ray.node_packages import on_nodes
from training.machine import cgroup

KNOWN = "ray-worth-it-memory-kills"
"""Key in Ray's key-value store under which the kills known before are kept, by node."""
MOST_WORKERS = 10_000
"""Most workers that Ray's list returns at once."""


def counted() -> tuple[int, int | None]:
    """Return, for this node, the number of processes that the system has killed, and the memory limit in bytes."""
    return cgroup.memory_kills(), cgroup.memory_limit()


def by_ray() -> list[tuple[str, str]]:
    """Return the workers that Ray has ended because their node had too little memory: address of the node and id of the
    worker, as Ray's dashboard lists them. Return an empty list if the dashboard does not tell."""
    try:
        ended = list_workers(filters=[("exit_type", "=", "NODE_OUT_OF_MEMORY")], limit=MOST_WORKERS)
    except (RayStateApiException, ValueError, OSError) as error:
        print(f"whether Ray ended a worker for its memory is not known: {error!r}", file=sys.stderr)
        return []
    return [(worker.ip, worker.worker_id) for worker in ended]


def main() -> None:
    """Ask all nodes and Ray for the processes that were killed for memory, and keep the answer in Ray's store. Print
    the nodes with kills since the last call as JSON, with the memory limit of each."""
    ray.cloudpickle.register_pickle_by_value(cgroup)  # a worker may have the user's own modules alone
    ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    nodes, of_ray = on_nodes(counted), by_ray()
    ended = {
        node: [*([f"{kills} by the system"] if kills else []), *(worker for where, worker in of_ray if where == node)]
        for node, (kills, _) in nodes.items()
    }
    known = json.loads(internal_kv._internal_kv_get(KNOWN) or "{}")
    internal_kv._internal_kv_put(KNOWN, json.dumps(ended))
    more = {node: limit for node, (_, limit) in nodes.items() if set(ended[node]) - set(known.get(node, []))}
    print(json.dumps(more), flush=True)


if __name__ == "__main__":
    main()
