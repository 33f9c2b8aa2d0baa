"""A script that knows nothing of Ray as Ray Train's training function.

python under_ray.py N CPUS KIND [--use-gpu] script.py …

Ray Train starts the workers and sets the variables by which such a script finds its ranks (KIND is torchrun or
tf-config), and nothing else. Runs in the user's Python with the user's Ray (2.51 and newer).
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray.cloudpickle
import ray.train
import variables  # type: ignore[import-not-found]  # beside this file, which is run as a command
from ray.train.backend import Backend, BackendConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

VARIABLES = {"torchrun": variables.torchrun, "tf-config": variables.tf_config}


def _address() -> str:
    """Return a free address of this worker. The port stays bound until the worker ends, because the script listens only
    seconds later; gRPC and PyTorch's store can listen on a port that another socket has bound without listening."""
    import socket

    import ray.util

    host = ray.util.get_node_ip_address()
    ((port, holder),) = variables.hold_ports(1, "", socket.AF_INET6 if ":" in host else socket.AF_INET).items()
    holder.detach()
    return f"{host}:{port}"


def _set(values: dict[str, str]) -> None:
    os.environ.update(values)  # by its module: `os.environ.update` itself would be sent as a copy


@dataclass
class RankVariables(BackendConfig):  # type: ignore[misc]
    """Configures a backend of Ray Train that sets in each worker the variables of `kind`, by which ranks meet."""

    kind: str = "torchrun"

    @property
    def backend_cls(self) -> type:
        """Return the class of the backend, which Ray Train asks for."""
        return _SetsVariables


class _SetsVariables(Backend):  # type: ignore[misc]
    share_cuda_visible_devices = True
    """As in Ray's own TorchTrainer, a worker sees the GPUs of all workers on its node, like a rank of torchrun;
    LOCAL_RANK says which GPU is the worker's own."""

    def on_start(self, worker_group: Any, backend_config: RankVariables) -> None:
        """Set the variables in all workers; Ray calls this when they have started, before the training function."""
        addresses = worker_group.execute(_address)
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, _set, VARIABLES[backend_config.kind](addresses, rank))


def run_script(config: dict[str, Any]) -> None:
    """Run the script in a worker as `python script.py` does."""
    sys.argv = config["command"]
    os.chdir(config["folder"])
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0) or type(end) is not SystemExit:
            raise


def main() -> None:
    """Run the script in as many workers as the command line says."""
    sys.path[0] = ""  # this file's folder is none of the script's
    ray.cloudpickle.register_pickle_by_value(variables)  # nor of Ray's workers
    workers, cpus, kind, *command = sys.argv[1:]
    use_gpu = command[0] == "--use-gpu"
    command = command[use_gpu:]
    storage = tempfile.mkdtemp(prefix="ray-train-")
    try:
        DataParallelTrainer(
            run_script,
            train_loop_config={"command": command, "folder": str(Path.cwd())},
            backend_config=RankVariables(kind=kind),
            scaling_config=ray.train.ScalingConfig(
                num_workers=int(workers), use_gpu=use_gpu, resources_per_worker={"CPU": int(cpus)}
            ),
            run_config=ray.train.RunConfig(storage_path=storage),
        ).fit()
    finally:
        shutil.rmtree(storage, ignore_errors=True)


if __name__ == "__main__":
    main()
