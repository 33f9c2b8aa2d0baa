"""Ray Train (V2, Ray 2.51 and newer): training threads, reports, a driver's end, local mode's world and checkpoints."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from . import files, in_pod, state
from .step_parts import REPORT

OF_THIS_MACHINE = ("local",)
"""File systems of Arrow."""
WAIT_SECONDS, MOST_WAIT_SECONDS = 0.02, 60.0
"""Poll interval and time limit for rank 0's checkpoint."""


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
    """Count `ray.train.report`, its time and its numbers; after one its search may stop this training."""
    report = module.report

    @functools.wraps(report)
    def report_observed(metrics: Any, *args: Any, **more: Any) -> Any:
        now = state.current()
        now.reports.calls += 1
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if isinstance(value, (int, float)):
                now.reports.measured(str(name), float(value), "ray")
        began = time.perf_counter()
        with now.part(REPORT):
            try:
                reported = report(metrics, *args, **more)
            finally:
                now.reports.call_seconds += time.perf_counter() - began
        if not now.own_hooks and now.is_enough():
            raise state.Enough(0)
        return reported

    module.report = report_observed


def keep_checkpoints_apart(module: Any) -> None:
    """Pods share no folder: each keeps what its own rank reports, where Ray would look for one that all write to.

    A path of another file system, or one in a store, is Ray's to look for. `module`: Ray Train's `storage`.
    """
    check = module.StorageContext._check_validation_file

    @functools.wraps(check)
    def checked_apart(self: Any) -> None:
        if in_pod.STORE in os.environ and self.storage_filesystem.type_name in OF_THIS_MACHINE:
            self._create_validation_file()
        check(self)

    module.StorageContext._check_validation_file = checked_apart


def end_driver_with_workers(module: Any) -> None:
    """End the driver after a `fit` whose workers were ended: what follows reads a result that is empty then."""
    fit = module.DataParallelTrainer.fit
    fits = itertools.count()

    @functools.wraps(fit)
    def fit_observed(self: Any, *args: Any, **more: Any) -> Any:
        try:
            result = fit(self, *args, **more)
        finally:  # the store of a cluster outlives a `fit` that fails, too
            if not self.running_in_local_mode:
                in_pod.fetch(Path(os.environ[state.FOLDER]))
        if self.running_in_local_mode and state.current().world > 1 and in_pod.NODE not in os.environ:
            _share_checkpoint(result, Path(os.environ[state.FOLDER], f"fit-{next(fits)}"))
        for path in Path(os.environ[state.FOLDER]).glob("rank-*.json"):
            if json.loads(path.read_text(encoding="utf-8"))["endedEarly"]:
                raise state.Enough(0)
        return result

    module.DataParallelTrainer.fit = fit_observed


def _share_checkpoint(result: Any, path_file: Path) -> None:
    """Give the code after `fit` the checkpoint of rank 0, as in Ray's one driver; `path_file` has its folder."""
    if state.current().rank == 0:
        files.write(path_file, result.checkpoint.path if result.checkpoint else "")
        return
    deadline = time.monotonic() + MOST_WAIT_SECONDS
    while not path_file.exists():
        if time.monotonic() > deadline:
            return  # rank 0 failed, or sees another folder
        time.sleep(WAIT_SECONDS)
    path = path_file.read_text(encoding="utf-8")
    result.checkpoint = sys.modules["ray.train"].Checkpoint.from_directory(path) if path else None


def observe_local_mode(module: Any) -> None:
    """Local mode (`num_workers=0`): tell it of other ranks, keep its checkpoints. `module`: Ray's train_fn_utils."""
    _give_its_world(module)
    report = module.LocalTrainFnUtils.report

    @functools.wraps(report)
    def report_kept(self: Any, metrics: Any, checkpoint: Any = None, *args: Any, **more: Any) -> Any:
        return report(self, metrics, _kept(checkpoint), *args, **more)

    module.LocalTrainFnUtils.report = report_kept


def _kept(checkpoint: Any) -> Any:
    """Return a copy of the checkpoint, as Ray's storage would keep one: a script deletes the folder when it was
    reported."""
    if checkpoint is None or not Path(checkpoint.path).is_dir():
        return checkpoint
    kept = Path(os.environ[state.FOLDER], f"checkpoint-{os.getpid()}")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(checkpoint.path, kept, copy_function=_link)
    return type(checkpoint).from_directory(str(kept))


def _link(source: str, target: str) -> None:
    """Link a file, to save the time of a second copy: a training without Ray writes its checkpoint once."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _give_its_world(module: Any) -> None:
    """Give Ray Train the world of this rank: Ray passes it to a script of torchrun's alone, and 1 otherwise."""
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
