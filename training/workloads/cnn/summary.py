"""Makes the TrainingResult of a trained session: final evaluation, every rank's figures, checks, the saved model."""

import hashlib
import json
import platform
import time
from datetime import UTC, datetime

import numpy as np
import tensorflow as tf

from training.contract import provenance
from training.contract.clock import Stamp
from training.contract.codec import decode, encode
from training.contract.result import (
    Amount,
    Point,
    Provenance,
    Seconds,
    Steps,
    StepSeconds,
    TrainingResult,
    Worker,
)
from training.launch.environment import bound_cpus
from training.launch.storage.run_storage import Storage
from training.launch.usage import container_cpu_since, peak_memory_bytes
from training.machine import topology
from training.workloads.cnn.detail import CnnDetail, SavedModel
from training.workloads.cnn.recipe import EXCHANGED_BYTES
from training.workloads.cnn.registry import MODELS
from training.workloads.cnn.session import Record, Session
from training.workloads.cnn.shapes import Shape
from training.workloads.cnn.workload import WORKLOAD

MODEL_FILE = "model.keras"


def result(session: Session, record: Record) -> TrainingResult | None:
    """Return the result of the run on rank 0, and None on every other rank. Every rank evaluates its part of the test
    set, once; then the figures of all ranks are collected."""
    began = time.monotonic()
    test_loss, confusion = session.loop.evaluate(session.data.test, session.data.test_images)
    test_seconds = time.monotonic() - began
    began = time.monotonic()
    workers, weights = _gather(session, record)
    probe_seconds = time.monotonic() - began
    saved = _save(session)
    if session.process.rank > 0:
        return None
    return TrainingResult(
        workload=WORKLOAD.name,
        arm=session.process.arm,
        recipe=session.recipe.to_dict(),
        provenance=_provenance(session),
        started_at=datetime.fromtimestamp(session.process.started.wall, UTC).isoformat(timespec="seconds"),
        world_size=session.loop.replicas,
        epochs_completed=len(record.history),
        seconds=_seconds(session, record, test_seconds, probe_seconds),
        steps=_steps(session, record),
        amount=_amount(session, record),
        scores={"testLoss": test_loss, "testAccuracy": float(confusion.trace() / confusion.sum())},
        curve=_curve(session, record),
        schedule=[epoch.learning_rate for epoch in record.history],
        work=_work(session),
        reasons=_reasons(session, record),
        workers=workers,
        checks={
            "shardsCoverDataSet": record.covered,
            "weightsEqual": len(set(weights)) == 1,
        },
        ray=session.process.ray,
        detail=CnnDetail(
            history=record.history,
            class_names=list(session.data.class_names),
            class_accuracy=[float(row[i] / row.sum()) if row.sum() else None for i, row in enumerate(confusion)],
            confusion_matrix=confusion.tolist(),
            saved_model=saved,
        ),
    )


def _provenance(session: Session) -> Provenance:
    process = session.process
    return Provenance(
        code_hash=process.software.code_hash,
        dependencies_hash=provenance.dependencies_hash(WORKLOAD.packages),
        dataset_hash=session.data.sha256,
        versions=process.software.versions,
        cpu_model=process.host.cpu_model,
        cpus_allowed=process.host.cpus_allowed,
        cpu_quota=process.host.cpu_quota,
        memory_bytes=process.host.memory_bytes,
        platform=platform.platform(),
    )


def _work(session: Session) -> dict[str, float]:
    return {
        "parameters": session.model.count_params(),
        "layers": len(session.model.layers),
        "trainImages": session.images,
        "validationImages": session.data.validation_images,
        "testImages": session.data.test_images,
    }


def _seconds(session: Session, record: Record, test_seconds: float, probe_seconds: float) -> Seconds:
    started, process = session.process.started, session.process
    validation = sum(epoch.evaluation_seconds for epoch in record.history)
    return Seconds(
        train=record.timed_seconds if record.step_trace else None,
        startup=started.seconds_until(record.first_step),
        phases=process.phases.seconds,
        warmup=record.warmup_seconds,
        validation=validation,
        evaluation=validation + test_seconds,
        report=record.report_seconds if process.report and _reports_alone(session) else None,
        checkpoint=record.checkpoint_seconds if session.recipe.checkpoint_epochs else None,
        wall=started.seconds_until(Stamp.now()),
        probe=probe_seconds,
    )


def _steps(session: Session, record: Record) -> Steps:
    gradient_bytes = EXCHANGED_BYTES[session.recipe.gradient_precision]
    return Steps(
        timed=len(record.step_trace),
        per_epoch=session.steps_per_epoch,
        seconds=_distribution(record.step_trace) if record.step_trace else None,
        exchanged_bytes=session.model.count_params() * gradient_bytes,
        trace=record.step_trace,
    )


def _amount(session: Session, record: Record) -> Amount:
    timed = sum(epoch.timed_images for epoch in record.history)
    return Amount(
        unit=WORKLOAD.unit,
        timed=timed,
        per_second=timed / record.timed_seconds if timed else None,
        per_step=session.recipe.global_batch_size,
    )


def _curve(session: Session, record: Record) -> list[Point]:
    """Return the validation accuracy after each epoch, by the seconds of steps up to then."""
    mean, seconds, points = record.timed_seconds / max(1, len(record.step_trace)), 0.0, []
    for epoch in record.history:
        step = epoch.train_seconds / epoch.timed_steps if epoch.timed_steps else mean
        seconds += step * session.steps_per_epoch
        points.append(Point(seconds=seconds if record.step_trace else None, score=epoch.validation_accuracy))
    return points


def _reasons(session: Session, record: Record) -> dict[str, str]:
    """Return the reasons why numbers of this run are null, by the names of the numbers."""
    reasons = _of_arm(session)
    if not record.step_trace:
        why = "all steps were warm-up: lower warmupSteps"
        reasons |= dict.fromkeys(("seconds.train", "amount.perSecond", "steps.seconds", "curve.seconds"), why)
    if session.process.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this process"
    if session.compute_threads is None:
        reasons["workers.computeThreads"] = "this system does not list the threads of a process"
    if not session.process.bound:
        reasons["workers.cpus"] = "not bound to CPUs: the system has no affinity, or a pod's limit holds instead"
    elif topology.read(bound_cpus() or ()) is None:
        reasons["workers.cpus"] = "the system does not say which CPUs are of one core"
    return reasons


def _of_arm(session: Session) -> dict[str, str]:
    """Return the reasons for numbers that this arm does not have, or that the settings leave out."""
    reasons: dict[str, str] = {}
    if not session.process.report:
        reasons["seconds.report"] = "this arm has nothing to report to"
    elif not _reports_alone(session):
        reasons["seconds.report"] = "each epoch is reported with its checkpoint: seconds.checkpoint"
    if not session.recipe.checkpoint_epochs:
        reasons["seconds.checkpoint"] = "checkpointEpochs is 0"
    if not session.process.ray or not session.recipe.max_failures:
        reasons["retries"] = "this run is not retried after a failure"
    if not session.process.ray:
        reasons["ray"] = "this arm runs without Ray"
    return reasons


def _reports_alone(session: Session) -> bool:
    """Return whether some epoch is reported without a checkpoint."""
    return session.recipe.checkpoint_epochs != 1


def _distribution(steps: list[float]) -> StepSeconds:
    p50, p95 = np.percentile(steps, [50, 95])
    return StepSeconds(mean=float(np.mean(steps)), p50=float(p50), p95=float(p95), max=max(steps))


def _gather(session: Session, record: Record) -> tuple[list[Worker], list[str]]:
    """Return every rank's own figures, and every rank's hash of the trained weights."""
    weights = b"".join(variable.numpy().tobytes() for variable in session.model.trainable_variables)
    own = json.dumps([encode(_worker(session, record)), hashlib.sha256(weights).hexdigest()]) + "\n"
    everyone = session.loop.concatenation(tf.constant(np.frombuffer(own.encode(), np.uint8).astype(np.int32)))
    lines = [json.loads(line) for line in everyone.numpy().astype(np.uint8).tobytes().splitlines()]
    return [decode(Worker, worker, "worker") for worker, _ in lines], [digest for _, digest in lines]


def _worker(session: Session, record: Record) -> Worker:
    process, affinity = session.process, bound_cpus()
    return Worker(
        rank=process.rank,
        node=provenance.node(),
        pod=provenance.pod(),
        cpu_model=process.host.cpu_model,
        amount=record.own_images,
        compute_threads=session.compute_threads,
        affinity=affinity,
        bound=process.bound,
        cpus=topology.read(affinity) if affinity and process.bound else None,
        software=process.software,
        peak_memory_bytes=peak_memory_bytes(),
        mean_cpus=record.timed_cpu_seconds / record.timed_seconds if record.step_trace else None,
        throttled_seconds=session.usage.throttled(),
        samples=session.usage.samples,
        container_cpu=container_cpu_since(process.container_cpu),
        training_wait=session.usage.training_wait,
        run_wait=session.usage.run_wait(),
    )


def _save(session: Session) -> SavedModel | None:
    """Write the model into the run's folder, as a plain model without a strategy, and return its file; None on other
    ranks than 0, or if it is not asked for."""
    if not session.recipe.save_model:
        return None
    weights = session.model.get_weights()  # every rank takes part: reading moving averages averages them
    if session.process.rank > 0 or session.process.folder is None:
        return None
    recipe = session.recipe
    shape = Shape(len(session.data.class_names), recipe.sync_batch_norm, recipe.seed, recipe.image_size)
    model = MODELS[recipe.model].build(shape)
    model.set_weights(weights)
    path = session.process.folder / MODEL_FILE
    model.save(path)
    if session.process.storage:
        Storage.at(session.process.storage).put(path, path.name)
    return SavedModel(path=MODEL_FILE, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
