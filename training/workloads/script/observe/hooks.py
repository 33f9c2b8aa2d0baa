"""Calls the observers of a framework when the script has imported it; nothing is imported for them."""

from __future__ import annotations

import faulthandler
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import (
    booster_rounds,
    experiment,
    guard,
    in_pod,
    keras_steps,
    ray_data,
    ray_train,
    rllib_iterations,
    state,
    torch_experiment,
    torch_joins,
    torch_loaders,
    torch_parts,
    torch_ranks,  # noqa: F401 (called by the mechanism of a plain script's ranks)
    torch_schedules,
    torch_steps,
)

HANG = "TRAINING_OBSERVE_HANG_SECONDS"
"""Environment variable: seconds after which a process writes the stack of each of its threads to a file."""


OBSERVERS: dict[str, Callable[[Any], None]] = {
    "torch.optim.optimizer": torch_steps.observe_optimizers,
    "torch.optim.lr_scheduler": torch_schedules.observe_schedules,
    "torch.amp.grad_scaler": torch_steps.observe_scalers,
    "torch.cuda.amp.grad_scaler": torch_steps.observe_scalers,
    "torch.utils.data.dataloader": torch_loaders.observe_loaders,
    "torch.autograd": torch_parts.observe_backward,
    "torch.nn.parallel.distributed": torch_parts.observe_parallel,
    "torch.serialization": torch_parts.observe_saving,
    "torch.distributed.distributed_c10d": torch_parts.observe_collectives,
    "torch.distributed.algorithms.join": torch_joins.observe_joins,
    "keras": keras_steps.observe_models,
    "tf_keras": keras_steps.observe_models,
    "xgboost.training": booster_rounds.observe_xgboost,
    "lightgbm.engine": booster_rounds.observe_lightgbm,
    "ray.data.iterator": ray_data.observe_batches,
    "ray.rllib.algorithms.algorithm": rllib_iterations.observe_algorithms,
    "ray.train.xgboost.config": booster_rounds.join_xgboost,
    "ray.train.lightgbm.config": booster_rounds.join_lightgbm,
    "ray.train.v2._internal.execution.worker_group.thread_runner": ray_train.observe_training_thread,
    "ray.train.v2._internal.execution.train_fn_utils": ray_train.observe_local_mode,
    "ray.train.v2.api.train_fn_utils": ray_train.observe_reports,
    "ray.train.v2._internal.execution.storage": ray_train.keep_checkpoints_apart,
    "ray.train.v2.api.data_parallel_trainer": ray_train.end_driver_with_workers,
}
"""Functions that observe a module, by its name; each is called when that module is completely loaded."""
EXPERIMENTS: dict[str, Callable[[Any], None]] = {
    "torch.optim.optimizer": torch_experiment.count_steps,
    "torch.utils.data.dataloader": torch_experiment.change_input,
    "torch.nn.parallel.distributed": torch_experiment.change_exchange,
}
"""Functions that change a module for `rwi why`, by its name, each called after the one that observes the module."""


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules by the other finders, and has a module's observers called when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of OBSERVERS; None for any other."""
        tables = (OBSERVERS, EXPERIMENTS) if experiment.is_wanted() else (OBSERVERS,)
        observers = [table[fullname] for table in tables if fullname in table]
        if not observers:
            return None
        after = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        for finder in sys.meta_path[after:]:  # one before may wait for the same module, and would ask this one again
            find = getattr(finder, "find_spec", None)
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None and spec.loader is not None:
                _wait(spec.loader, observers)
                return spec
        return None


@guard.guarded("a framework can't be observed")
def _wait(loader: Any, observers: Sequence[Callable[[Any], None]]) -> None:
    loader.exec_module = _executed(loader.exec_module, observers)


@guard.around("a framework can't be observed")
def _executed(observers: Sequence[Callable[[Any], None]], module: ModuleType) -> Iterator[None]:
    yield
    for observe in observers:
        observe(module)


def install() -> None:
    """Have the observers called when the script imports their frameworks, if this process is to be observed."""
    if state.FOLDER not in os.environ:
        return
    in_pod.tell_secret()
    sys.meta_path.insert(0, Finder())
    seconds = float(os.environ.get(HANG) or 0)
    if seconds:
        path = Path(os.environ[state.FOLDER], f"hang-{os.getpid()}.txt")
        where = os.open(path, os.O_WRONLY | os.O_CREAT)  # a file object would be warned of at the end of the process
        faulthandler.dump_traceback_later(seconds, file=where)
