"""One training process from set-up to result: the same body in every arm. How it came to be is the launcher's."""

import math
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training.contract.arms import ARMS
from training.contract.clock import Stamp
from training.contract.process import Process
from training.contract.progress import Progress
from training.contract.result import TrainingResult
from training.launch import environment
from training.launch.usage import Usage, cpu_seconds, pool_threads, threads
from training.workloads.cnn import checkpoints, dataset, summary
from training.workloads.cnn.checkpoints import Keeper
from training.workloads.cnn.detail import Epoch
from training.workloads.cnn.loop import Loop
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.registry import MODELS
from training.workloads.cnn.session import Record, Session
from training.workloads.cnn.shapes import Shape, Share
from training.workloads.cnn.sources import Labels

INTER_OP_THREADS = 2
"""Two, because one thread computes while the other waits for other workers' gradients; both have the same CPUs."""
PLATEAU_PATIENCE = 2
PLATEAU_FACTOR = 0.5


class Schedule:
    """The recipe's `learningRateSchedule` and `earlyStopping`, fed with each epoch's validation loss.

    Losses are summed over all workers, so every rank decides the same.
    """

    def __init__(self, recipe: CnnRecipe) -> None:
        self._recipe = recipe
        self._rate = recipe.scaled_learning_rate()
        self._best = math.inf
        self._since_best = 0
        self._since_change = 0

    def rate(self, epoch: int) -> float:
        """Return the learning rate of epoch `epoch`, from 1; cosine as Loshchilov and Hutter 2016, without restarts."""
        if self._recipe.learning_rate_schedule == "cosine":
            return self._rate * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / self._recipe.epochs))
        return self._rate

    @property
    def is_over(self) -> bool:
        """Return whether training should stop early."""
        return 0 < self._recipe.early_stopping <= self._since_best

    def after(self, validation_loss: float) -> None:
        """Take note of an epoch's validation loss."""
        better = validation_loss < self._best
        self._best = min(self._best, validation_loss)
        self._since_best = 0 if better else self._since_best + 1
        self._since_change = 0 if better else self._since_change + 1
        if self._recipe.learning_rate_schedule == "plateau" and self._since_change >= PLATEAU_PATIENCE:
            self._rate *= PLATEAU_FACTOR
            self._since_change = 0


def train(recipe: CnnRecipe, process: Process) -> TrainingResult | None:
    """Train, evaluate and measure. Return the result on rank 0, else None. Raise DatasetError before the first step."""
    session = set_up(recipe, process)
    environment.resume_garbage_collection()
    progress = Progress(process.folder if process.rank == 0 else None)
    progress.write(
        "start", arm=process.arm, workers=process.world, epochs=recipe.epochs, images=session.images,
        stepsPerEpoch=session.steps_per_epoch,
    )  # fmt: skip
    keeper = _keeper(session, progress)
    session.usage.start()
    record = fit(session, progress, keeper)
    session.usage.stop()
    return summary.result(session, record)


def set_up(recipe: CnnRecipe, process: Process) -> Session:
    """Return a session with all that precedes the first step: strategy, data, model, traced training function."""
    usage, phases = Usage(), process.phases
    tf.config.threading.set_intra_op_parallelism_threads(ARMS[process.arm].compute_threads(recipe))
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    before = threads()
    with phases.measure("collectives"):
        strategy = _strategy(process)
        tf.config.list_logical_devices()  # starts the pool of compute threads, where no strategy has yet
    compute_threads = pool_threads(before, threads())
    with phases.measure("data"):
        share = Share(process.rank, process.world, recipe.global_batch_size)
        data = dataset.load(recipe, process.dataset_path, share)
    with phases.measure("model"), strategy.scope():
        model, optimizer = _model(recipe, len(data.class_names), process.rank)
        loop = Loop(recipe, data, process.rank, strategy, (model, optimizer))
    with phases.measure("tracing"):
        loop.trace(data.epoch_order(recipe.seed, 1))
    return Session(recipe, process, data, model, optimizer, loop, usage, compute_threads)


def fit(session: Session, progress: Progress, keeper: Keeper | None) -> Record:
    """Train all epochs, each followed by validation, and return what was measured; only steps after warm-up count."""
    recipe, schedule = session.recipe, Schedule(session.recipe)
    record = Record(first_step=Stamp.now())
    if keeper:
        keeper.resume(record)
    for entry in record.history:
        schedule.after(entry.validation_loss)
    for epoch in range(len(record.history) + 1, recipe.epochs + 1):
        if schedule.is_over:
            break
        entry = _run_epoch(session, record, epoch, schedule.rate(epoch))
        record.history.append(entry)
        schedule.after(entry.validation_loss)
        left = (recipe.epochs - epoch) * (entry.train_seconds + entry.evaluation_seconds)
        rate = entry.timed_images / entry.train_seconds if entry.timed_images else None
        progress.write("epoch", epochs=recipe.epochs, imagesPerSecond=rate, secondsLeft=left, **_metrics(entry))
        _report(session, record, _metrics(entry), keeper)
    return record


def _keeper(session: Session, progress: Progress) -> Keeper | None:
    """Return the keeper of checkpoints for a run that makes checkpoints; None for any other run."""
    if not session.recipe.checkpoint_epochs:
        return None
    return Keeper(session, progress)


def _report(session: Session, record: Record, metrics: dict[str, Any], keeper: Keeper | None) -> None:
    """Write a checkpoint with these metrics if one is due; otherwise report the metrics if the arm reports."""
    if keeper and keeper.is_due(metrics["epoch"]):
        keeper.keep(record, metrics)
    elif session.process.report:
        began = time.monotonic()
        session.process.report(metrics)
        record.report_seconds += time.monotonic() - began


def _strategy(process: Process) -> Any:
    if ARMS[process.arm].start == "alone":
        return tf.distribute.get_strategy()
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )
    if strategy.num_replicas_in_sync != process.world:
        raise RuntimeError(
            f"TensorFlow sees {strategy.num_replicas_in_sync} replicas, and this run has {process.world} workers; "
            f"TF_CONFIG is {os.environ.get('TF_CONFIG')!r}. Nothing was measured"
        )
    return strategy


def _model(recipe: CnnRecipe, classes: int, rank: int) -> tuple[Any, Any]:
    # Initial weights come from the recipe's seed alone; dropout differs between ranks, as it does between images
    tf.keras.utils.set_random_seed(recipe.seed + 7919 * rank)
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if recipe.precision == "bfloat16" else "float32")
    if recipe.checkpoint_epochs:
        checkpoints.prepare()
    model = MODELS[recipe.model].build(Shape(classes, recipe.sync_batch_norm, recipe.seed, recipe.image_size))
    # Keras' newer Adam runs some ten operations a variable where this one has a fused kernel: docs/performance.md
    return model, tf.keras.optimizers.legacy.Adam(recipe.scaled_learning_rate())


def _run_epoch(session: Session, record: Record, epoch: int, rate: float) -> Epoch:
    session.optimizer.learning_rate.assign(rate)
    order = session.data.epoch_order(session.recipe.seed, epoch)
    steps = session.steps_per_epoch
    warm = min(steps, max(0, session.recipe.warmup_steps - (epoch - 1) * steps))
    sums = _warm_up(session, record, order, warm, epoch)
    timed_sums, seconds = _timed(session, record, order, warm, epoch)
    own = sums + timed_sums
    record.own_images += int(own[2])
    began = time.monotonic()
    session.loop.average_statistics()
    loss, hits, seen, rows = session.loop.total(tf.constant(own)).numpy()
    record.covered &= bool(seen == session.images and rows == session.data.train_rows.sum(dtype=np.int64))
    validation_loss, confusion = session.loop.evaluate(session.data.validation(), session.data.validation_images)
    return Epoch(
        epoch=epoch,
        loss=float(loss) / session.images,
        accuracy=float(hits) / session.images,
        validation_loss=validation_loss,
        validation_accuracy=float(confusion.trace() / confusion.sum()),
        learning_rate=rate,
        train_seconds=seconds,
        timed_steps=steps - warm,
        timed_images=max(0, session.images - warm * session.recipe.global_batch_size),
        evaluation_seconds=time.monotonic() - began,
    )


def _warm_up(session: Session, record: Record, order: Labels, steps: int, epoch: int) -> NDArray[np.float64]:
    began = time.monotonic()
    sums, _ = session.loop.steps(order, 0, steps, epoch)
    record.warmup_seconds += time.monotonic() - began
    return sums


def _timed(
    session: Session, record: Record, order: Labels, first: int, epoch: int
) -> tuple[NDArray[np.float64], float]:
    """Train the steps from `first` to the epoch's end, and return their sums and the seconds that they took. The record
    gets the wall time, this process's CPU time, and the length of each step."""
    cpu, clock, began = cpu_seconds(), time.time(), time.monotonic()
    sums, ends = session.loop.steps(order, first, session.steps_per_epoch, epoch)
    seconds = time.monotonic() - began
    record.timed_cpu_seconds += cpu_seconds() - cpu
    record.timed_seconds += seconds
    record.step_trace += np.diff(ends, prepend=clock).round(6).tolist()
    return sums, seconds


def _metrics(entry: Epoch) -> dict[str, Any]:
    return {
        "epoch": entry.epoch,
        "loss": entry.loss,
        "accuracy": entry.accuracy,
        "validationLoss": entry.validation_loss,
        "validationAccuracy": entry.validation_accuracy,
    }
