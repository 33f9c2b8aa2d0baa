"""Calls the observers of a framework when the script has imported it; nothing is imported for them."""

from __future__ import annotations

import faulthandler
import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import (
    booster_rounds,
    experiment,
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
    torch_probe,
    torch_schedules,
    torch_steps,
)

HANG = "TRAINING_OBSERVE_HANG_SECONDS"
"""Environment variable: after so many seconds a process writes where it is."""


def _observe_distributed(module: Any) -> None:
    torch_probe.observe_groups(module)
    torch_parts.observe_collectives(module)


OBSERVERS: dict[str, Callable[[Any], None]] = {
    "torch.optim.optimizer": torch_steps.observe_optimizers,
    "torch.optim.lr_scheduler": torch_schedules.observe_schedules,
    "torch.amp.grad_scaler": torch_steps.observe_scalers,
    "torch.cuda.amp.grad_scaler": torch_steps.observe_scalers,
    "torch.utils.data.dataloader": torch_loaders.observe_loaders,
    "torch.autograd": torch_parts.observe_backward,
    "torch.nn.parallel.distributed": torch_parts.observe_parallel,
    "torch.serialization": torch_parts.observe_saving,
    "torch.distributed.distributed_c10d": _observe_distributed,
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
"""Functions that change a module for `make why`, around what observes it."""


class Finder(importlib.abc.MetaPathFinder):
    """Finds what the others find, and has an observer called when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of OBSERVERS; None for any other."""
        tables = (OBSERVERS, EXPERIMENTS) if experiment.is_wanted() else (OBSERVERS,)
        observers = [table[fullname] for table in tables if fullname in table]
        if not observers:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module = _then(spec.loader.exec_module, observers)  # type: ignore[method-assign, assignment]
                return spec
        return None


def _then(
    execute: Callable[[ModuleType], None], observers: Sequence[Callable[[Any], None]]
) -> Callable[[ModuleType], None]:
    @functools.wraps(execute)
    def execute_and_observe(module: ModuleType) -> None:
        execute(module)
        try:
            for observe in observers:
                observe(module)
        except Exception as error:  # noqa: BLE001 (a version that nobody tried: the script goes on, unobserved)
            state.note(f"{module.__name__} can't be observed: {error!r}")

    return execute_and_observe


def install() -> None:
    """Wait for the frameworks, in a process that is to be observed."""
    if state.FOLDER not in os.environ:
        return
    in_pod.tell_secret()
    sys.meta_path.insert(0, Finder())
    seconds = float(os.environ.get(HANG) or 0)
    if seconds:
        where = Path(os.environ[state.FOLDER], f"hang-{os.getpid()}.txt").open("w")  # noqa: SIM115 (open as long as this process)
        faulthandler.dump_traceback_later(seconds, file=where)
