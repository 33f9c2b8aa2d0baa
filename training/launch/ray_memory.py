"""On which nodes of a Ray cluster the system has ended processes for their memory since this was asked last.

    python -P -m training.launch.ray_memory

Such a worker can say nothing, its pod goes on where the system ends single processes (cgroups of version 1), and Ray's
driver sees a broken connection. So the counts of all nodes are asked when a run has failed; Ray's key-value store has
those of the last time, because pods outlive a run. The last line that is printed has, as JSON, the memory in bytes that
such a node may have, null where nothing limits it, by its address.
"""

import json
import logging

import ray
from ray.experimental import internal_kv

from training.launch.ray_nodes import on_nodes
from training.machine import cgroup

KNOWN = "ray-worth-it-memory-kills"
"""In Ray's store: how many there had been, by node."""


def counted() -> tuple[int, int | None]:
    """Of the node that this runs on: processes that the system has ended, and the memory that it may have."""
    return cgroup.memory_kills(), cgroup.memory_limit()


def main() -> None:
    """Ask, compare and remember."""
    ray.cloudpickle.register_pickle_by_value(cgroup)  # a worker may have the user's own modules alone
    ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    nodes = on_nodes(counted)
    known = json.loads(internal_kv._internal_kv_get(KNOWN) or "{}")
    internal_kv._internal_kv_put(KNOWN, json.dumps({node: kills for node, (kills, _) in nodes.items()}))
    more = {node: limit for node, (kills, limit) in nodes.items() if kills and kills != known.get(node)}
    print(json.dumps(more), flush=True)


if __name__ == "__main__":
    main()
