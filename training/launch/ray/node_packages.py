"""Finds the packages on the nodes of a Ray cluster: sent there alone, and run as a job by the Python of a node.

    python node_packages.py '{"packages": ["torch"], "modules": ["torch"]}'

Prints a marker and a line of JSON: what the job's own Python has, and by node what that of Ray's workers has. Standard
library and Ray alone, and Python 3.8 or newer: it has to report a Python that is too old.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata, util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # of Python 3.9 and newer
    from collections.abc import Callable

MARKER = "=== nodes ==="
SECONDS = 120.0
"""Time limit in seconds for the answers of all nodes; each of them starts a worker to answer."""


def installed(packages: list[str], modules: list[str]) -> dict[str, Any]:
    """Return the installed versions by package, including Python's own, and those of `modules` that can be imported."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "modules": [name for name in modules if util.find_spec(name)]}


def on_nodes(look: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Call a function on every node that has CPUs; return its results by the node's address. Ray must be connected."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task, answers = ray.remote(num_cpus=0)(look), {}
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU"):
            placement = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            answers[node["NodeManagerAddress"]] = task.options(scheduling_strategy=placement).remote(*arguments)
    return dict(zip(answers, ray.get(list(answers.values()), timeout=SECONDS)))  # noqa: B905 (of Python 3.10 and newer)


def of_nodes(packages: list[str], modules: list[str]) -> dict[str, Any]:
    """Connect to the Ray cluster, and return what `installed` returns on every node, by the node's address."""
    import ray

    ray.init(address="auto", log_to_driver=False)
    return on_nodes(installed, packages, modules)


def main() -> None:
    """Print what is installed for the job's own Python, and on each node if that Python has Ray."""
    question = json.loads(sys.argv[1])
    nodes = of_nodes(**question) if util.find_spec("ray") else {}
    print(f"{MARKER}\n{json.dumps({'job': installed(**question), 'nodes': nodes})}", flush=True)


if __name__ == "__main__":
    main()
