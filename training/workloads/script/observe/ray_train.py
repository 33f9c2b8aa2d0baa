"""Ray Train (V2, Ray 2.51 and newer): training threads, reports, the end of a driver, and local mode's world."""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from . import state


def observe_training_thread(module: Any) -> None:
    """Write at the end of a worker's training: Ray kills the process 5 seconds after it.

    Ray takes any exception in that thread for a failure, so the end after the wanted steps stops here.
    """
    run = module.ThreadRunner.run

    @functools.wraps(run)
    def run_observed(self: Any, target: Any) -> Any:
        @functools.wraps(target)
        def observed() -> Any:
            try:
                return target()
            except state.Enough:
                context = sys.modules["ray.train.v2._internal.execution.context"].get_train_context()
                context.checkpoint_upload_threadpool.shutdown()  # which Ray does after a training function
                return None
            finally:
                state.write()

        return run(self, observed)

    module.ThreadRunner.run = run_observed


def observe_reports(module: Any) -> None:
    """Count `ray.train.report`, its time and its last numbers."""
    report = module.report

    @functools.wraps(report)
    def report_observed(metrics: Any, *args: Any, **more: Any) -> Any:
        now = state.current()
        now.reports += 1
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if isinstance(value, (int, float)):
                now.measured(str(name), float(value))
        began = time.perf_counter()
        try:
            return report(metrics, *args, **more)
        finally:
            now.report_seconds += time.perf_counter() - began

    module.report = report_observed


def end_driver_with_workers(module: Any) -> None:
    """End the driver after a `fit` whose workers were ended: what follows reads a result that is empty then."""
    fit = module.DataParallelTrainer.fit

    @functools.wraps(fit)
    def fit_observed(self: Any, *args: Any, **more: Any) -> Any:
        result = fit(self, *args, **more)
        for path in Path(os.environ[state.FOLDER]).glob("rank-*.json"):
            if json.loads(path.read_text(encoding="utf-8"))["endedEarly"]:
                raise state.Enough(0)
        return result

    module.DataParallelTrainer.fit = fit_observed


def give_local_mode_its_world(module: Any) -> None:
    """Local mode (`num_workers=0`) as one of several ranks: Ray tells a script of torchrun's alone, and 1 otherwise."""
    rank, world = state.current().rank, state.current().world
    if world == 1 or not {"TF_CONFIG", state.CLUSTER} & os.environ.keys():
        return
    init = module.LocalTrainFnUtils.__init__

    @functools.wraps(init)
    def init_in_world(self: Any, *args: Any, **more: Any) -> None:
        more.update(world_size=world, world_rank=rank, local_rank=rank, local_world_size=world)
        init(self, *args, **more)

    module.LocalTrainFnUtils.__init__ = init_in_world
    if state.cluster():  # XGBoost's ranks are joined for a training that is distributed
        module.LocalTrainFnUtils.is_distributed = lambda _: True
