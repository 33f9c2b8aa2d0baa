"""Defines the result of a run: one versioned TrainingResult as JSON. Standard library only.

A number that could not be measured is None, and `reasons` says why under its dotted camelCase name; it is never 0.
"""

import dataclasses
import hashlib
import json
import os
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training.contract.codec import ResultError, decode, encode, typed, write_whole
from training.contract.cpu_use import CpuWait, MachineUse
from training.contract.gpu_use import GpuUse, without_samples
from training.contract.recipe import canonical
from training.contract.workload import named
from training.machine.topology import Cpu

SCHEMA_VERSION = 2
NAME = "result.json"
RAY_TOKEN = "ray-token"  # noqa: S105 (a file's name)
"""The file beside the result with the token of a Ray that was started for the run, while that runs."""
WORKERS = "workers"
"""Key in a result's reasons: why fewer processes report than train together."""
MACHINE, TRAINING_WAIT = "machine", "workers.trainingWait"
"""Keys in a result's reasons: why it is not known what other programs took, and how long ranks waited for a CPU."""
FAILED = "failed"
"""Word of a trial that failed, in each item of a search's `did` that it did not do."""
NOT_MEASURED = "notMeasured"
"""Key in a result's reasons: why this run measured nothing, so that its arm is absent."""
PROOF = "proof"
"""Item of `did` of a script's ranks whose work was proved against one process: without it proved no target counts."""
SAME_BUT = "the same work but for"
"""How a PROOF begins of work that differs by what every port would do otherwise, too, and by nothing else."""
TRAINER = "trainer"
"""Key of `did` of a run that only started Ray: Ray's trainer for the framework, or `tasks`. Its `seconds.probe` is what
a Python took that imports what the script does, and ends."""


@dataclass(frozen=True, kw_only=True)
class StepSeconds:
    """Distribution of the timed steps of rank 0, in seconds."""

    mean: float
    p50: float
    p95: float
    max: float


@dataclass(frozen=True, kw_only=True)
class Software:
    """Software of a training process, read in that process before any of it was used."""

    code_hash: str
    """Hash of the project's modules that the arm can import; see training.contract.provenance."""
    versions: dict[str, str]
    """Versions of Python and of the packages that are installed where it trained."""
    platform: str
    """System, machine and C library."""
    kernel: str
    environment: dict[str, str]
    """The environment variables that steer frameworks, as they were when the framework was imported."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One training process."""

    rank: int
    node: str
    """Name of the machine; of a cluster's node, and not of the pod."""
    cpu_model: str
    """CPU model of that machine."""
    amount: int | None
    """Amount that this worker itself processed in all epochs, in the work's unit; null where it could not be
    counted."""
    compute_threads: int | None
    """Threads that the framework computes with, counted in the process; null where the system does not list them."""
    affinity: list[int] | None
    """CPUs the process may use, of a script's rank those of the threads that did its work; null where the system has no
    affinity."""
    bound: bool
    """The run bound it to its own CPUs; in a pod the CPU limit holds it instead."""
    cpus: list[Cpu] | None
    """Position of those CPUs: core, kind of core, NUMA node. Null where a rank that should be bound was not, or the
    system does not tell."""
    software: Software
    peak_memory_bytes: int | None
    mean_cpus: float | None
    """CPU seconds a second, over the timed steps; of a script without the processes that a rank starts itself."""
    throttled_seconds: float | None
    """Time the cgroup held this process back during the run."""
    samples: list[list[float]] = field(default_factory=list)
    """[seconds since the first step, CPUs in use, resident bytes], about once a second."""
    container_cpu: list[list[float]] | None = None
    """[seconds since the epoch, CPU seconds of the process's container so far]: at the start of the process,
    without its own; and at the end of training. Null outside a pod."""
    pod: str | None = None
    """Null outside a pod."""
    training_wait: CpuWait | None = None
    """CPU time and waiting time from its first step to its last."""
    run_wait: CpuWait | None = None
    """CPU time and waiting time from its start on."""
    gpu: GpuUse | None = None
    """Null for a rank that computed on none."""


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """Ray's own figures of its cluster."""

    nodes: int
    cpus: float
    memory_bytes: float
    object_store_bytes: float


@dataclass(frozen=True, kw_only=True)
class RayHead:
    """The pod in which Ray's head and the driver of this run are."""

    pod: str
    container_cpu: list[list[float]]
    """Like the field of a worker."""
    cluster_start_seconds: float | None = None
    """Time from the RayCluster's creation until all its pods were ready for the first time. No run contains it, as the
    cluster is kept."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The code, packages and data that a result comes from."""

    code_hash: str
    """Hash of the project's modules that the run can import, taken before it ran; see training.contract.provenance."""
    dependencies_hash: str
    """Hash of the versions that uv.lock pins; `versions` are the installed ones."""
    dataset_hash: str | None
    """SHA-256 of images and labels as loaded; null where a script reads its data itself."""
    versions: dict[str, str]
    cpu_model: str
    cpus_allowed: int
    cpu_quota: float | None
    """CPUs that a quota of this machine or container allows; null: none does."""
    memory_bytes: int
    platform: str


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """The time of a run, by its parts."""

    train: float | None
    """Timed steps, all epochs: the steady state."""
    startup: float | None
    """Start of the process or container to the first optimizer step; null where no step was seen. Of a run that Ray's
    workers were started for, from the request for them; likewise `wall`."""
    phases: dict[str, float]
    """Parts of the start-up, by name."""
    warmup: float | None
    """First steps, which train but are not timed; null where no step was seen, as `validation`."""
    validation: float | None
    """Evaluation within the epochs, and whatever else lies between a script's: more epochs take more of it."""
    evaluation: float | None
    """All evaluation: that, and the test at the end; null where it is not told from other work."""
    report: float | None
    """Time in ray.train.report, within the epochs' gaps; null for arms that have none."""
    wall: float
    """Start of the process or container to the result."""
    checkpoint: float | None = None
    """Writing and keeping checkpoints, within the epochs' gaps; null where there are none."""
    probe: float = 0.0
    """Part of `wall` that this project's own probes took; a training without them would not spend it."""
    scale_up: float | None = None
    """From the request for Ray's workers until the last one's raylet was alive; `startup` and `wall` contain it. Null
    where the workers were not started for this run."""
    queued: float | None = None
    """Wait for quota before anything of the run started; no other number contains it. Null without a queue."""
    observer: float = 0.0
    """Time for observing a script's steps, on the rank where it took most; no other number contains it."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The optimizer steps of a run."""

    timed: int
    per_epoch: int
    """Optimizer steps of one of `epochsCompleted`; 0 where none was seen."""
    seconds: StepSeconds | None
    exchanged_bytes: int | None
    """Size of a worker's gradients, a step; null where it is not known."""
    trace: list[float] = field(default_factory=list)
    """Seconds of every timed step of rank 0, in order. Of steps that a GPU computes each has the mean of its block: as
    many as lie between two waits for the device, and `seconds` is null."""
    whole_epochs: bool = True
    """False: where an epoch ends is not known, or none was finished, and the whole run counts as one."""
    gaps: int | None = None
    """Number of epochs in which the time after their steps (validation, report, checkpoint) was measured; null if in
    all. With 0 it is not known how long another epoch takes."""


@dataclass(frozen=True, kw_only=True)
class StepParts:
    """Where the time of the timed steps went: means, in seconds."""

    seconds: dict[str, float]
    """By part, on rank 0: `input`, `compute`, `exchange`, `collective`, `optimizer`, `between`, `save`, `report`. They
    sum to the step. A part that cannot be told from others is not in it, and its time is in theirs."""
    exchange: list[float]
    """Of each rank, from its last gradient until all are exchanged; empty where that is not known."""
    link: float | None
    """The least of these over the ranks, step by step: what the exchange takes when nobody is waited for."""
    own_work: list[list[float]]
    """Of each rank, the time in which it did not wait for others, in each of about ten parts of the timed steps."""

    def waiting(self, rank: int) -> float | None:
        """Return the time for which a rank waited for slower ones; None where the exchange is not known."""
        return None if self.link is None else self.exchange[rank] - self.link


@dataclass(frozen=True, kw_only=True)
class Amount:
    """The work that the timed steps did, over all workers."""

    unit: str
    """Unit of the work, in the plural: `images`."""
    timed: int | None
    """Null where it is not known."""
    per_second: float | None
    per_step: int | None
    """The global batch; null where steps differ, or it is not known."""
    known: str = "counted"
    """How: `counted` where it reaches the training, `reported` by the script, or `unknown`."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Score of a run after some training."""

    seconds: float | None
    """Time of the steps so far; warm-up steps count as the mean timed step. Null where no step was timed."""
    score: float
    """Score on held-out data; higher is better."""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A number that a script said of itself."""

    seconds: float
    """Since the start of the run."""
    value: float


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """The trials of a search, summed up. `reasons` say under `search.<key>` why a part is null."""

    finished: int
    """Trials that trained to their end."""
    stopped: int
    """Trials that the search ended before."""
    failed: int
    """Trials that failed; none is retried."""
    epochs_trained: int | None
    """Epochs of all trials but those that failed; null where one's were not seen."""
    trial_seconds: float
    """Mean time of a trial, from the start of its process to its end."""
    between_trials_seconds: float
    """Mean time for which a slot waits between two trials, for each trial; when none is left it does not wait."""
    best_config: str | None
    """Canonical JSON of the finished trial with the best metric; null where none finished."""
    best_metric: float | None
    """Its metric."""


@dataclass(frozen=True, kw_only=True)
class MadeRanks:
    """How this project made the ranks of a run of a script that trains in one process, and how one has them without
    it."""

    words: str
    """What each rank did."""
    proof: str
    """What was proved of them."""
    write: str
    """What one writes to distribute the script so."""
    port: str = ""
    """The smallest port as a diff, which was run; "" where none is given, and `write` says why."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """One run of one arm: what every workload has, and in `detail` what its own has more."""

    workload: str
    arm: str
    recipe: dict[str, Any]
    provenance: Provenance
    started_at: str
    """UTC, ISO 8601."""
    world_size: int | None
    """Replicas that the framework saw; null where no step was seen, or how many there are is not known."""
    epochs_completed: int
    seconds: Seconds
    steps: Steps
    amount: Amount
    scores: dict[str, float | None]
    """Scores by the names that its workload gives them."""
    curve: list[Point]
    """The score that training follows, after each epoch."""
    schedule: list[float]
    """Learning rate of each epoch, as training chose it by the scores; arms may differ in it. Empty for a script."""
    work: dict[str, float]
    """Sizes of model and data by name; they must be the same in all arms of a repeat."""
    workers: list[Worker]
    checks: dict[str, bool | None]
    """Checks during the run, by name; null if not verified, with a reason."""
    detail: Any
    """The workload's own (`Workload.detail`); null in a summary."""
    ray: RayCluster | None = None
    ray_head: RayHead | None = None
    """Null where Ray is not in pods."""
    ray_ran: bool | None = None
    """True if a script's own processes had started or joined Ray; null if that was not checked."""
    reported: dict[str, list[Reported]] = field(default_factory=dict)
    """Numbers that a script reported on rank 0, by name, in order."""
    did: dict[str, str] = field(default_factory=dict)
    """Work of a script, item by item, by which arms are compared; `reasons` has under `work.<item>` why an item is
    missing."""
    left_files: list[str] = field(default_factory=list)
    """Files that a script made or changed in its own folder, where later runs find them; the first few, by name."""
    weights: str | None = None
    """SHA-256 of the trained weights, equal on all ranks; null where they were not looked at or differ."""
    retries: int | None = None
    """Failures of workers after which Ray Train went on; null where the first would have ended the run."""
    all_reduce: dict[str, float] | None = None
    """Probe after training: bytes of a buffer to the seconds that its all-reduce takes."""
    data_wait_seconds: float | None = None
    """Time that the rank which waited longest waited for batches; null where their delivery was not seen."""
    first_batch_seconds: float | None = None
    """Time from the start until the last rank had its first batch; null likewise."""
    step_parts: StepParts | None = None
    """Null where the parts of a step were not clocked."""
    search: SearchOutcome | None = None
    """Null where nothing was searched."""
    made_ranks: MadeRanks | None = None
    """Null where the ranks, if there are several, are the script's own."""
    machine: MachineUse | None = None
    """Use of this machine's CPU time by other programs during the run; null where it could not be read."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons why values are null, by their dotted names: `seconds.train`."""
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data with camelCase keys."""
        return typing.cast("dict[str, Any]", encode(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TrainingResult":
        """Return a result from JSON data. Raises ResultError on another version, a missing key or a wrong type."""
        version = data.get("schemaVersion")
        if version != SCHEMA_VERSION:
            raise ResultError(
                f"schemaVersion is {version!r}; this program reads {SCHEMA_VERSION}, and another version wrote this"
            )
        result = typing.cast("TrainingResult", decode(cls, data, "result"))
        if result.detail is None:
            return result
        try:
            kind = named(result.workload).detail
        except ValueError as error:
            raise ResultError(f"result.{error}") from None
        return dataclasses.replace(result, detail=decode(kind, result.detail, "result.detail"))

    def write(self, path: Path) -> None:
        """Write whole, or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n")

    def summary(self, path: str, sha256: str) -> dict[str, Any]:
        """Return this result for Pulumi's state: without series and detail, with the file's path and its SHA-256."""
        workers = [dataclasses.replace(worker, samples=[], gpu=without_samples(worker.gpu)) for worker in self.workers]
        short = dataclasses.replace(self, detail=None, steps=dataclasses.replace(self.steps, trace=[]), workers=workers)
        return short.to_dict() | {"path": path, "sha256": sha256}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A result as Pulumi's state keeps it: its series are empty, and with the detail in the file at `path`."""

    result: TrainingResult
    path: str
    """Relative to the project."""
    sha256: str
    """SHA-256 of the file."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Summary":
        """Read the data of `TrainingResult.summary`. Raises ResultError on another version, a missing key or a wrong
        type."""
        own = {key: typed(str, data.get(key), f"summary.{key}") for key in ("path", "sha256")}
        return cls(result=TrainingResult.from_dict({key: data[key] for key in data if key not in own}), **own)


def read(path: Path) -> TrainingResult:
    """Return the result in a file; raises ResultError saying what is wrong with which file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultError(f"{path} is absent: the run ended without a result; its log is beside it") from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise ResultError(f"{path} holds no result, but {type(data).__name__}")
    try:
        return TrainingResult.from_dict(data)
    except ResultError as error:
        raise ResultError(f"{path}: {error}") from None


def summarise(path: Path, project: Path) -> str:
    """Return the canonical JSON of the summary of the result at `path`, which it names relative to `project`."""
    content = read(path)
    name = os.path.relpath(path, project)
    return canonical(content.summary(name, hashlib.sha256(path.read_bytes()).hexdigest()))
