"""Ray Train (V2, Ray 2.51 and newer): training threads, reports, a driver's end, local mode's world and checkpoints."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from . import files, guard, in_pod, own_rank, state
from .step_parts import REPORT

OF_THIS_MACHINE = ("local",)
"""Types of Arrow's file systems that are on this machine."""
WAIT_SECONDS, MOST_WAIT_SECONDS = 0.02, 60.0
"""Seconds between two looks for rank 0's checkpoint, and the time limit in seconds."""


@guard.guarded("Ray Train's workers can't be observed")
def observe_training_thread(module: Any) -> None:
    """Have the observation written at the end of a worker's training, because Ray kills the process 5 seconds later.
    Ray takes any exception in that thread for a failure, so `state.Enough` is caught there."""
    module.ThreadRunner.run = _run(module.ThreadRunner.run)


@guard.around("the end of a worker's training is not seen")
def _run(self: Any, target: Any) -> Iterator[tuple[Any, Any]]:
    yield (self, _written_after(target)), {}


def _written_after(target: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(target)
    def target_observed() -> Any:
        try:
            return target()
        except state.Enough:
            _end_uploads()
            return None
        finally:
            state.write()

    return target_observed


@guard.guarded("checkpoints may not be complete")
def _end_uploads() -> None:
    context = sys.modules["ray.train.v2._internal.execution.context"].get_train_context()
    context.checkpoint_upload_threadpool.shutdown()  # which Ray does after a training function


@guard.guarded("Ray Train's reports can't be observed")
def observe_reports(module: Any) -> None:
    """Record the calls of `ray.train.report` with time and numbers; after one the search may stop this training."""
    module.report = _report(module.report)


@guard.around("a report could not be observed", guard.METRICS, guard.PARTS)
def _report(metrics: Any, *_: Any, **__: Any) -> Iterator[None]:
    now = state.current()
    now.reports.calls += 1
    for name, value in metrics.items() if isinstance(metrics, dict) else ():
        now.reports.measured(str(name), value, "ray")
    began = time.perf_counter()
    with now.part(REPORT):
        try:
            yield
        finally:
            now.reports.call_seconds += time.perf_counter() - began
    if not now.own_hooks and now.is_enough():
        raise state.Enough(0)


@guard.guarded("workers can't be given folders of their own")
def keep_checkpoints_apart(module: Any) -> None:
    """Let each worker in a pod of its own keep the checkpoints that its rank reports: pods share no folder, and Ray
    would look for a folder that all workers write to. Ray's own check stays for other file systems. `module`: Ray
    Train's `storage`."""
    module.StorageContext._check_validation_file = _check(module.StorageContext._check_validation_file)


@guard.around("a worker could not be given a folder of its own")
def _check(self: Any) -> Iterator[None]:
    if in_pod.STORE in os.environ and self.storage_filesystem.type_name in OF_THIS_MACHINE:
        self._create_validation_file()
    yield


@guard.guarded("Ray Train's `fit` can't be observed")
def end_driver_with_workers(module: Any) -> None:
    """End the driver after a `fit` whose workers the observer has ended: what follows would read an empty result."""
    module.DataParallelTrainer.fit = _fit(module.DataParallelTrainer.fit, itertools.count())


@guard.around("the end of a `fit` could not be observed")
def _fit(fits: Iterator[int], self: Any, *_: Any, **__: Any) -> Generator[None, Any, None]:
    try:
        result = yield
    finally:  # the store of a cluster outlives a `fit` that fails, too
        if not self.running_in_local_mode:
            in_pod.fetch(Path(os.environ[state.FOLDER]))
    if self.running_in_local_mode and state.current().world > 1 and in_pod.NODE not in os.environ:
        _share_checkpoint(result, Path(os.environ[state.FOLDER], f"fit-{next(fits)}"))
    for path in Path(os.environ[state.FOLDER]).glob("rank-*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["endedEarly"]:
            raise state.Enough(0)


def _share_checkpoint(result: Any, path_file: Path) -> None:
    """Give the script's code after `fit` the checkpoint of rank 0, as in Ray's single driver. The file `path_file`
    holds the path of the checkpoint's folder."""
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


@guard.guarded("Ray Train's local mode can't be observed")
def observe_local_mode(module: Any) -> None:
    """Observe Ray Train's local mode (`num_workers=0`): give it the world of the other ranks, and keep its checkpoints.
    `module`: Ray's train_fn_utils."""
    _give_its_world(module)
    module.LocalTrainFnUtils.report = _keep(module.LocalTrainFnUtils.report)


@guard.around("a checkpoint could not be kept")
def _keep(self: Any, metrics: Any, checkpoint: Any = None, *args: Any, **more: Any) -> Iterator[tuple[Any, Any]]:
    yield (self, metrics, _kept(checkpoint), *args), more


def _kept(checkpoint: Any) -> Any:
    """Return a copy of the checkpoint, because a script deletes its folder after the report, whereas Ray's storage
    would keep a copy."""
    if checkpoint is None or not Path(checkpoint.path).is_dir():
        return checkpoint
    kept = Path(os.environ[state.FOLDER], f"checkpoint-{os.getpid()}")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(checkpoint.path, kept, copy_function=_link)
    return type(checkpoint).from_directory(str(kept))


def _link(source: str, target: str) -> None:
    """Create `target` as a hard link to `source`, or as a copy where links are impossible. A link saves the time of a
    second copy: without Ray a training writes its checkpoint once."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _give_its_world(module: Any) -> None:
    """Set the rank and the world size that Ray Train's local mode tells the script: Ray itself sets them only under
    torchrun, otherwise the world size is 1."""
    rank, world = state.current().rank, state.current().world
    if world == 1 or not {"TF_CONFIG", own_rank.CLUSTER} & os.environ.keys():
        return
    own = {"world_size": world, "world_rank": rank, "local_rank": rank, "local_world_size": world}
    module.LocalTrainFnUtils.__init__ = _init(module.LocalTrainFnUtils.__init__, own)
    if own_rank.cluster():  # XGBoost's ranks are joined for a training that is distributed
        module.LocalTrainFnUtils.is_distributed = lambda _: True


@guard.around("a rank could not be told of the others")
def _init(own: dict[str, int], *args: Any, **more: Any) -> Iterator[tuple[Any, Any]]:
    yield args, {**more, **own}
