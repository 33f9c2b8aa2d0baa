"""From a trained session to its TrainingResult: final evaluation, every rank's figures, checks, the saved model."""

import hashlib
import json
import platform
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import tensorflow as tf

from training.contract import provenance
from training.contract.clock import Stamp
from training.contract.result import Provenance, SavedModel, StepSeconds, TrainingResult, Worker, decode, encode
from training.launch.environment import bound_cpus
from training.launch.usage import container_cpu_since, peak_memory_bytes
from training.machine import topology
from training.workloads.cnn.registry import MODELS, Shape
from training.workloads.cnn.session import Record, Session

MODEL_FILE = "model.keras"
PROBE_BYTES = (64 * 1024, 8 * 1024 * 1024)
PROBE_REPEATS = 5


def result(session: Session, record: Record) -> TrainingResult | None:
    """The test set, once; then what all ranks have to say. None on every rank but 0."""
    began = time.monotonic()
    test_loss, confusion = session.loop.evaluate(session.data.test)
    test_seconds = time.monotonic() - began
    began = time.monotonic()
    workers, weights = _gather(session, record)
    probe = _probe(session) if session.launch.arm == "native" else None
    probe_seconds = time.monotonic() - began
    saved = _save(session)
    if session.launch.rank > 0:
        return None
    return TrainingResult(
        **_facts(session),
        **_times(session, record, test_seconds),
        reasons=_reasons(session, record),
        history=record.history,
        epochs_completed=len(record.history),
        test_loss=test_loss,
        test_accuracy=float(confusion.trace() / confusion.sum()),
        class_accuracy=[float(row[i] / row.sum()) if row.sum() else None for i, row in enumerate(confusion)],
        confusion_matrix=confusion.tolist(),
        workers=workers,
        checks={
            "shardsCoverDataSet": record.covered,
            "weightsEqual": len(set(weights)) == 1,
        },
        all_reduce=probe,
        probe_seconds=probe_seconds,
        ray=session.launch.ray,
        saved_model=saved,
    )


def _facts(session: Session) -> dict[str, Any]:
    data, launch = session.data, session.launch
    return {
        "arm": launch.arm,
        "recipe": session.recipe.to_dict(),
        "provenance": Provenance(
            code_hash=launch.software.code_hash,
            dependencies_hash=provenance.dependencies_hash(),
            dataset_hash=data.sha256,
            versions=launch.software.versions,
            cpu_model=launch.host.cpu_model,
            cpus_allowed=launch.host.cpus_allowed,
            cpu_quota=launch.host.cpu_quota,
            memory_bytes=launch.host.memory_bytes,
            platform=platform.platform(),
        ),
        "world_size": session.loop.replicas,
        "parameters": session.model.count_params(),
        "layers": len(session.model.layers),
        "class_names": list(data.class_names),
        "train_images": session.images,
        "validation_images": len(data.validation_rows),
        "test_images": len(data.test.labels),
        "steps_per_epoch": session.steps_per_epoch,
    }


def _times(session: Session, record: Record, test_seconds: float) -> dict[str, Any]:
    started, steps = session.launch.started, record.step_trace
    images = sum(entry.timed_images for entry in record.history)
    wall = started.wall
    return {
        "started_at": datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds"),
        "train_seconds": record.timed_seconds if images else None,
        "timed_steps": len(steps),
        "timed_images": images,
        "images_per_second": images / record.timed_seconds if images else None,
        "step_seconds": _distribution(steps) if images else None,
        "step_trace": steps,
        "startup_seconds": started.seconds_until(record.first_step),
        "startup_phases": session.launch.phases.seconds,
        "warmup_seconds": record.warmup_seconds,
        "evaluation_seconds": test_seconds + sum(entry.evaluation_seconds for entry in record.history),
        "report_seconds": record.report_seconds if session.launch.report else None,
        "wall_seconds": started.seconds_until(Stamp.now()),
    }


def _reasons(session: Session, record: Record) -> dict[str, str]:
    """Why a number of this run is null."""
    reasons: dict[str, str] = {}
    if not record.step_trace:
        why = "all steps were warm-up: lower warmupSteps"
        reasons |= dict.fromkeys(("trainSeconds", "imagesPerSecond", "stepSeconds"), why)
    if not session.launch.report:
        reasons["reportSeconds"] = "this arm has nothing to report to"
    if not session.launch.ray:
        reasons["ray"] = "this arm runs without Ray"
    if session.launch.host.cpu_quota is None:
        reasons["provenance.cpuQuota"] = "no CPU quota holds this process"
    if session.compute_threads is None:
        reasons["workers.computeThreads"] = "this system does not list the threads of a process"
    if not session.launch.bound:
        reasons["workers.cpus"] = "not bound to CPUs: the system has no affinity, or a pod's limit holds instead"
    elif topology.read(bound_cpus() or ()) is None:
        reasons["workers.cpus"] = "the system does not say which CPUs are of one core"
    if session.launch.arm != "native":
        reasons["allReduce"] = "only the native arm probes the link"
    return reasons


def _distribution(steps: list[float]) -> StepSeconds:
    p50, p95 = np.percentile(steps, [50, 95])
    return StepSeconds(mean=float(np.mean(steps)), p50=float(p50), p95=float(p95), max=max(steps))


def _gather(session: Session, record: Record) -> tuple[list[Worker], list[str]]:
    """Every rank's own figures, and every rank's hash of the trained weights."""
    weights = b"".join(variable.numpy().tobytes() for variable in session.model.trainable_variables)
    own = json.dumps([encode(_worker(session, record)), hashlib.sha256(weights).hexdigest()]) + "\n"
    everyone = session.loop.concatenation(tf.constant(np.frombuffer(own.encode(), np.uint8).astype(np.int32)))
    lines = [json.loads(line) for line in everyone.numpy().astype(np.uint8).tobytes().splitlines()]
    return [decode(Worker, worker, "worker") for worker, _ in lines], [digest for _, digest in lines]


def _worker(session: Session, record: Record) -> Worker:
    launch, affinity = session.launch, bound_cpus()
    return Worker(
        rank=launch.rank,
        node=provenance.node(),
        pod=provenance.pod(),
        cpu_model=launch.host.cpu_model,
        images=record.own_images,
        compute_threads=session.compute_threads,
        affinity=affinity,
        bound=launch.bound,
        cpus=topology.read(affinity) if affinity and launch.bound else None,
        software=launch.software,
        peak_memory_bytes=peak_memory_bytes(),
        mean_cpus=record.timed_cpu_seconds / record.timed_seconds if record.step_trace else None,
        throttled_seconds=session.usage.throttled(),
        samples=session.usage.samples,
        container_cpu=container_cpu_since(launch.container_cpu),
    )


def _probe(session: Session) -> dict[str, float]:
    """Seconds of an all-reduce by size of its buffer in bytes: the median of a few, outside the clock."""
    found = {}
    for size in PROBE_BYTES:
        buffer, times = tf.zeros([size // 4]), []
        session.loop.total(buffer)
        for _ in range(PROBE_REPEATS):
            began = time.monotonic()
            session.loop.total(buffer)
            times.append(time.monotonic() - began)
        found[str(size)] = float(np.median(times))
    return found


def _save(session: Session) -> SavedModel | None:
    """Write the model into the run's folder, where the recipe says so: as a plain model, of no strategy."""
    if not session.recipe.save_model:
        return None
    weights = session.model.get_weights()  # every rank takes part: reading moving averages averages them
    if session.launch.rank > 0 or session.launch.folder is None:
        return None
    shape = Shape(len(session.data.class_names), session.recipe.sync_batch_norm, session.recipe.seed)
    model = MODELS[session.recipe.model].build(shape)
    model.set_weights(weights)
    path = session.launch.folder / MODEL_FILE
    model.save(path)
    return SavedModel(path=MODEL_FILE, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
