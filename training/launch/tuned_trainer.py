"""Ray Train's TensorflowTrainer with fewer processes, and without TensorFlow in those that do not train.

Pinned to the Ray of uv.lock: `_create_default_callbacks` and the module path are not Ray's public interface.
docs/performance.md has what each part saves.
"""

import json
import os
import socket
from dataclasses import dataclass
from typing import Any

import ray
from ray.train._internal.utils import get_address_and_port
from ray.train.backend import Backend, BackendConfig
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy.fixed import FixedScalingPolicy
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray.train.v2.tensorflow.tensorflow_trainer import TensorflowTrainer

from training.machine.ports import CAN_BE_HELD, hold_port

_HELD: list[socket.socket] = []
"""Ports of this worker, until its process ends."""


class LeanTensorflowTrainer(TensorflowTrainer):  # type: ignore[misc]
    """A TensorflowTrainer whose driver and controller do not import TensorFlow (2 to 6 s each).

    Nor does it start a manager of Ray Data sets, of which there are none; nor, as Ray was started for this run alone,
    a PlacementGroupCleaner, which is for a controller that dies while its cluster lives on, and a coordinator of
    autoscaling.
    """

    def __init__(self, **arguments: Any) -> None:
        # TensorflowTrainer's own does the same with ray.train.tensorflow's config, whose package imports TensorFlow
        DataParallelTrainer.__init__(self, backend_config=TensorflowAddresses(), **arguments)

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
class TensorflowAddresses(BackendConfig):  # type: ignore[misc]
    """Tells the workers where the others are: the whole of what Ray's own TensorflowConfig does."""

    @property
    def backend_cls(self) -> type[Backend]:
        """The class that Ray calls on the controller."""
        return _TensorflowAddressesBackend


class _TensorflowAddressesBackend(Backend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: TensorflowAddresses) -> None:  # noqa: ARG002 (Ray's interface)
        addresses = [f"{host}:{port}" for host, port in worker_group.execute(_held_address)]
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, _set_tf_config, addresses, rank)


def _held_address() -> tuple[str, int]:
    """This worker's address with a port that is held as long as its process lives, where that can be."""
    host, _ = get_address_and_port()
    held = hold_port("")
    port = int(held.getsockname()[1])
    if CAN_BE_HELD:
        _HELD.append(held)
    else:
        held.close()
    return host, port


def _set_tf_config(addresses: list[str], rank: int) -> None:
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    os.environ["TF_CONFIG"] = json.dumps(cluster)
