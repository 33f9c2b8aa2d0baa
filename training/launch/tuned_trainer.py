"""Ray Train's trainer with fewer processes, and without the framework in those that do not train.

Pinned to the Ray of uv.lock: `_create_default_callbacks` and the module path are not Ray's public interface.
docs/performance.md has what each part saves.
"""

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy.fixed import FixedScalingPolicy
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from training.machine.ports import CAN_BE_HELD, hold_port

_LISTENERS: list[socket.socket] = []
"""Ports of this worker, until its process ends."""


Addresses = Callable[[Sequence[str], int], dict[str, str]]
"""Type of `Workload.rendezvous`."""


class LeanTrainer(DataParallelTrainer):  # type: ignore[misc]
    """A DataParallelTrainer whose driver and controller do not import the framework (TensorFlow: 2 to 6 s each).

    Nor does it start a manager of Ray Data sets, of which there are none; nor, as Ray was started for this run alone,
    a PlacementGroupCleaner, which is for a controller that dies while its cluster lives on, and a coordinator of
    autoscaling.
    """

    def __init__(self, rendezvous: Addresses, **arguments: Any) -> None:
        # The trainers of frameworks do the same with a config of their own, whose package imports the framework
        super().__init__(backend_config=PeerAddresses(rendezvous), **arguments)

    def _create_default_callbacks(self) -> list[Any]:
        unused = {"DatasetsCallback", "PlacementGroupCleanerCallback"}
        return [callback for callback in super()._create_default_callbacks() if type(callback).__name__ not in unused]

    def _initialize_and_run_controller(self, **arguments: Any) -> Any:
        arguments["scaling_policy"] = _FixedWorkers(self.scaling_config)
        # Ray would give the controller an environment of its own, and so a new process (2 s). Here every process has
        # that environment, because the driver started them all, and one that Ray keeps ready will do.
        controller = ray.remote(num_cpus=0)(TrainController).remote(**arguments)
        ray.get(controller.run.remote())
        return ray.get(controller.get_result.remote())


class _FixedWorkers(FixedScalingPolicy):  # type: ignore[misc]
    """A fixed number of workers on a cluster that does not grow: no coordinator of autoscaling has to be an actor."""

    def after_controller_start(self, train_run_context: Any) -> None:
        """Ray's own asks the coordinator for the workers' resources here, and every 20 s."""

    def _maybe_send_resource_request(self) -> None:
        pass


@dataclass
class PeerAddresses(BackendConfig):  # type: ignore[misc]
    """Tells the workers where the others are: the whole of what Ray's own TensorflowConfig does."""

    rendezvous: Addresses

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that Ray calls on the controller."""
        return _PeerAddressesBackend


class _PeerAddressesBackend(Backend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: PeerAddresses) -> None:
        addresses = [f"{host}:{port}" for host, port in worker_group.execute(_held_address)]
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, _set_variables, backend_config.rendezvous(addresses, rank))


def _held_address() -> tuple[str, int]:
    """Return this worker's address with a port that is held as long as its process lives, where the system allows
    that."""
    host, _ = get_address_and_port()
    listener = hold_port("")
    port = int(listener.getsockname()[1])
    if CAN_BE_HELD:
        _LISTENERS.append(listener)
    else:
        listener.close()
    return host, port


def _set_variables(variables: dict[str, str]) -> None:
    os.environ.update(variables)
