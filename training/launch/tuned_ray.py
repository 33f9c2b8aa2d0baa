"""Ray Train with everything left out that a run on this machine does not need. See docs/adr/0007.

Uses parts of Ray that are not its public interface; Ray is pinned in uv.lock.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ray._private.node import Node

from training.contract.workload import Workload
from training.launch import entry
from training.launch.ray import driver
from training.launch.tuned_priority import yield_to_training

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray runs its workers at 15, where every other process of the machine goes first
    "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC": "0",  # as Ray Train sets it for its controller
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how long after the last worker the controller may notice the end
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # which prints every line a second time
    "RAY_COLOR_PREFIX": "0",  # escape sequences in logs that are read as files
    # Each of these is an actor: a process that starts beside the workers, and then polls.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}
"""Environment of the driver, before Ray starts; docs/performance.md has what each saves."""
OBJECT_STORE_BYTES = 100 * 2**20
"""Training data does not pass through it."""


def prepare(request: entry.Request) -> None:
    """Have Ray start no autoscaler, and no API server unless its dashboard is wanted: nobody would ask them."""
    threading.Thread(target=_import_trainer).start()  # half a second that Ray's start leaves unused
    Node.start_monitor = lambda _: None
    if not request.dashboard:
        Node.start_api_server = lambda _, **__: None


def lean_trainer(workload: Workload) -> Callable[..., Any]:
    """A trainer with fewer processes, for the workload's framework."""
    from training.launch.tuned_trainer import LeanTrainer

    return partial(LeanTrainer, workload.rendezvous)


def _import_trainer() -> None:
    import training.launch.tuned_trainer  # noqa: F401


SET_UP = driver.SetUp(
    settings=SETTINGS,
    trainer=lean_trainer,
    init={"object_store_memory": OBJECT_STORE_BYTES},
    prepare=prepare,
    in_worker=yield_to_training,
)
