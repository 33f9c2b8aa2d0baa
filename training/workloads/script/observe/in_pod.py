"""What a pod adds to an observation: node, pod, CPU model, what its container used; and how it reaches Ray's driver.

Ray's workers in pods share no folder with their driver. What each wrote goes through Ray's own key-value store, which
every process of a cluster reaches: `fit` in the driver fetches it.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

NODE = "TRAINING_NODE"
"""Environment variable of a pod: the name of its node."""
STORE = "TRAINING_OBSERVE_STORE"
"""Environment variable: the beginning of the keys of a run, whose workers have no folder in common."""
CGROUP_STAT = Path("/sys/fs/cgroup/cpu.stat")
CGROUP_USAGE = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
"""Of the first version of cgroups."""


class Pod:
    """Where this process is, from its start."""

    def __init__(self) -> None:
        self._first = _container_cpu(less=time.process_time()) if NODE in os.environ else None

    def to_dict(self) -> dict[str, Any] | None:
        """Plain data; None outside of pods."""
        if NODE not in os.environ:
            return None
        last = _container_cpu()
        return {
            "node": os.environ[NODE],
            "name": platform.node(),
            "cpuModel": _cpu_model(),
            "containerCpu": [self._first, last] if self._first and last else None,
        }


def put(name: str, text: str) -> bool:
    """Hand an observation to the driver; false where this is no worker of a cluster that is told to."""
    worker = sys.modules.get("ray._private.worker")
    if STORE not in os.environ or worker is None or worker.global_worker.mode != worker.WORKER_MODE:
        return False
    store = sys.modules["ray.experimental.internal_kv"]
    store._internal_kv_put(f"{os.environ[STORE]}/{platform.node()}-{name}", text)
    return True


def fetch(folder: Path) -> None:
    """In the driver: write the observations of its workers into `folder`, each as the file that it would have been."""
    if STORE not in os.environ:
        return
    store, prefix = sys.modules["ray.experimental.internal_kv"], f"{os.environ[STORE]}/"
    try:
        for key in store._internal_kv_list(prefix):
            (folder / f"rank-{key.decode().rpartition('/')[2]}").write_bytes(store._internal_kv_get(key))
            store._internal_kv_del(key)
    except Exception as error:  # noqa: BLE001 (whatever it is, the script goes on; the reader says that ranks are missing)
        print(f"observer: {error!r}", file=sys.stderr)


def _container_cpu(less: float = 0.0) -> list[float] | None:
    """Now, in seconds since the epoch, and the CPU seconds of the container so far, minus `less`; None: not counted."""
    try:
        counted = re.search(r"^usage_usec (\d+)$", CGROUP_STAT.read_text(), re.MULTILINE)
    except OSError:
        counted = None
    try:
        used = int(counted.group(1)) / 1e6 if counted else int(CGROUP_USAGE.read_text()) / 1e9
    except (OSError, ValueError):
        return None
    return [time.time(), used - less]


def _cpu_model() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()
