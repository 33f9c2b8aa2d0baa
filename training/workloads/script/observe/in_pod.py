"""A pod's part of an observation: node, pod, CPU model, CPU time of its container; and the way to Ray's driver.

Ray's workers in pods share no folder with their driver. What each wrote goes through Ray's own key-value store, which
every process of a cluster reaches: `fit` in the driver fetches it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

NODE = "TRAINING_NODE"
"""Environment variable of a pod: the name of its node."""
RAY_JOB = "TRAINING_RAY_JOB"
"""Environment variable of a job on an existing Ray cluster and its workers, several of which may share a node."""
SECRET_FILE = "TRAINING_SECRET_FILE"  # noqa: S105 (its name)
"""Environment variable of the workers of a job on an existing Ray cluster: a file with more variables, which no log and
no page of Ray shows."""
STORE = "TRAINING_OBSERVE_STORE"
"""Environment variable: the prefix of a run's keys in Ray's store, for runs whose workers share no folder."""
CGROUP_STATS = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
CGROUP_USAGE = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
"""File of the first version of cgroups, with the CPU time."""


class Pod:
    """What this process knows of its pod: node, CPU model, and the container's CPU time since this process started."""

    def __init__(self) -> None:
        self._first = _container_cpu(less=time.process_time()) if NODE in os.environ else None
        self._throttled = _throttled_seconds() if {NODE, RAY_JOB} & os.environ.keys() else None

    def to_dict(self) -> dict[str, Any] | None:
        """Return the facts about the pod as plain data, without a pod name if several ranks may be on the node; None if
        the process runs in no pod and no job of a Ray cluster."""
        if not {NODE, RAY_JOB} & os.environ.keys():
            return None
        last, throttled = _container_cpu(), _throttled_seconds()
        return {
            "node": os.environ.get(NODE) or platform.node(),
            "name": platform.node() if NODE in os.environ else None,
            "cpuModel": _cpu_model(),
            "containerCpu": [self._first, last] if self._first and last else None,
            "throttledSeconds": None if throttled is None or self._throttled is None else throttled - self._throttled,
        }


def tell_secret() -> None:
    """Set the environment variables that a Ray job has in a file, so that Ray shows them nowhere."""
    if SECRET_FILE in os.environ:
        os.environ.update(json.loads(Path(os.environ[SECRET_FILE]).read_text(encoding="utf-8")))


def put(name: str, text: str) -> bool:
    """Write an observation to Ray's store for the driver; return False if this is no worker of a run that uses it."""
    worker = sys.modules.get("ray._private.worker")
    if STORE not in os.environ or worker is None or worker.global_worker.mode != worker.WORKER_MODE:
        return False
    store = sys.modules["ray.experimental.internal_kv"]
    store._internal_kv_put(f"{os.environ[STORE]}/{platform.node()}-{name}", text)
    return True


def fetch(folder: Path) -> None:
    """Write the workers' observations from Ray's store into the driver's `folder`, as files like those that workers
    write themselves."""
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
    """Return the seconds since the epoch, and the CPU seconds that the container has used so far minus `less`; None if
    the system does not count them."""
    counts = _counts()
    try:
        used = counts["usage_usec"] / 1e6 if "usage_usec" in counts else int(CGROUP_USAGE.read_text()) / 1e9
    except (OSError, ValueError):
        return None
    return [time.time(), used - less]


def _throttled_seconds() -> float | None:
    """Return the seconds for which the CPU limit has throttled the container so far; None if not counted."""
    counts = _counts()
    if "throttled_usec" in counts:
        return counts["throttled_usec"] / 1e6
    return counts["throttled_time"] / 1e9 if "throttled_time" in counts else None


def _counts() -> dict[str, int]:
    for path in CGROUP_STATS:
        try:
            return {name: int(count) for name, count in map(str.split, path.read_text().splitlines())}
        except (OSError, ValueError):
            continue
    return {}


def _cpu_model() -> str:
    """Return the CPU model in the same words as `training.machine.cpu.model`, which cannot be imported here."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    fields = (re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE) for name in ("model name", "cpu family", "model"))
    name, family, model = (match.group(1).strip() if match else "" for match in fields)
    name = name or platform.processor() or platform.machine()
    return f"{name} (family {family}, model {model})" if family and model else name
