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
_GONE = ("allReduce",)
"""Keys that earlier results of this version have, and that nothing reads any more."""
NAME = "result.json"
RAY_TOKEN = "ray-token"  # noqa: S105 (a file's name)
"""Name of the file beside the result with the token of a Ray that was started for the run, while that Ray runs."""
WORKERS = "workers"
"""Key in a result's `reasons`: why fewer processes report than train together."""
MACHINE, TRAINING_WAIT = "machine", "workers.trainingWait"
"""Keys in a result's `reasons`: why it is not known what other programs took of the CPUs, and how long ranks waited for
a CPU."""
FAILED = "failed"
"""Value in a search's `did` of each item of work that a trial did not do because it failed."""
NOT_MEASURED = "notMeasured"
"""Key in a result's `reasons`: why this run measured nothing, so that its arm is absent from the comparison."""
PROOF = "proof"
"""Item of `did` of a script whose ranks were made by this project, and proved to do the work of one process. Without
this item a target that the ranks reach does not count."""
SAME_BUT = "the same work but for"
"""Beginning of a PROOF for ranks whose work differs from one process's only as that of any port of the script."""
TRAINER = "trainer"
"""Key of `did` of a run that only started Ray, with Ray's trainer for the framework, or `tasks`, as its value. In such
a run `seconds.probe` is the time of a Python process that imports what the script imports, and ends."""


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
    """Versions of Python and of the packages that are installed where the process trained."""
    platform: str
    """Operating system, machine type and C library."""
    kernel: str
    environment: dict[str, str]
    """The environment variables that steer frameworks, as they were when the framework was imported."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """What one training process was and measured."""

    rank: int
    node: str
    """Name of the machine; of a cluster's node, and not of the pod."""
    cpu_model: str
    """CPU model of the machine `node`."""
    amount: int | None
    """Amount of work that this worker itself did in all epochs, in the workload's unit; null if not counted."""
    compute_threads: int | None
    """Threads that the framework computes with, counted in the process; null where the system does not list them."""
    affinity: list[int] | None
    """CPUs that the process may use; for a rank of a script, those that the threads which did its work may use. Null if
    the system has no affinity."""
    bound: bool
    """True if the run bound the process to CPUs of its own; in a pod it is False, because the CPU limit holds the
    process instead."""
    cpus: list[Cpu] | None
    """Positions of the CPUs in `affinity`: core, kind of core, NUMA node. Null if a rank that should be bound was not,
    or if the system does not tell them."""
    software: Software
    peak_memory_bytes: int | None
    mean_cpus: float | None
    """Mean CPUs that the process used in the timed steps; of a script without the processes that a rank starts."""
    throttled_seconds: float | None
    """Seconds for which the cgroup's quota held this process back during the run."""
    samples: list[list[float]] = field(default_factory=list)
    """Samples, each [seconds since the first step, CPUs in use, resident bytes], about one a second."""
    container_cpu: list[list[float]] | None = None
    """Two readings, each [seconds since the Unix epoch, CPU seconds of the process's container so far]: at the start of
    the process, without the CPU time of the process itself, and at the end of training. Null outside a pod."""
    pod: str | None = None
    """Name of the pod; null outside a pod."""
    training_wait: CpuWait | None = None
    """CPU time and waiting time of the process from its first step to its last."""
    run_wait: CpuWait | None = None
    """CPU time and waiting time of the process from its start on."""
    gpu: GpuUse | None = None
    """GPU that the rank computed on; null if it used no GPU."""


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """What Ray itself reports of its cluster."""

    nodes: int
    cpus: float
    memory_bytes: float
    object_store_bytes: float


@dataclass(frozen=True, kw_only=True)
class RayHead:
    """The pod in which Ray's head and the driver of this run are."""

    pod: str
    container_cpu: list[list[float]]
    """Readings of the pod's CPU time, as in `Worker.container_cpu`."""
    cluster_start_seconds: float | None = None
    """Seconds from the RayCluster's creation until all its pods were ready for the first time. This time is in no run's
    time, because the cluster is kept."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The code, packages and data that a result comes from."""

    code_hash: str
    """Hash of the project's modules that the run can import and, for a script, of the files and versions that decide
    it."""
    dependencies_hash: str
    """Hash of the package versions that uv.lock pins; for a script, of those in `versions`, which are the installed
    ones."""
    dataset_hash: str | None
    """SHA-256 of images and labels, or of names and sizes of image files; null where a script reads its data itself."""
    versions: dict[str, str]
    cpu_model: str
    cpus_allowed: int
    cpu_quota: float | None
    """CPUs that a quota of this machine or container allows; null if there is no quota."""
    memory_bytes: int
    platform: str


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """The time of a run, by its parts."""

    train: float | None
    """Time of the timed steps of all epochs: the steady state."""
    startup: float | None
    """Time from the start of the process or container to the first optimizer step; null if no step was seen. If Ray's
    workers were started for this run, the time begins with the request for them; so does `wall`."""
    phases: dict[str, float]
    """Seconds of the parts of the start-up, by name."""
    warmup: float | None
    """Time of the first steps, which train but are not timed; null, as `validation` is, if no step was seen."""
    validation: float | None
    """Time of evaluation between the steps of the epochs, or of all that a script does between them."""
    evaluation: float | None
    """Time of all evaluation: `validation`, and the test at the end; null if it cannot be told from other work."""
    report: float | None
    """Time in ray.train.report, between the steps of the epochs; null if it is not called or is part of another
    number."""
    wall: float
    """Time from the start of the process or container to the result."""
    checkpoint: float | None = None
    """Time for writing and keeping checkpoints, between the steps of the epochs; null if there are no checkpoints."""
    probe: float = 0.0
    """Part of `wall` that this project's own probes and observer took; a training without them would not spend it."""
    scale_up: float | None = None
    """Time from the request for Ray's workers until the last worker's raylet was alive; `startup` and `wall` contain
    this time. Null if the workers were not started for this run."""
    queued: float | None = None
    """Time that the run waited in a queue for quota before anything of it started; no other number contains this time.
    Null without a queue."""
    observer: float = 0.0
    """Time that observing a script's steps took, on the rank where it took most; it is in `wall` and in no step."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The optimizer steps of a run."""

    timed: int
    per_epoch: int
    """Optimizer steps of one epoch of `epochsCompleted`; 0 if no step was seen."""
    seconds: StepSeconds | None
    exchanged_bytes: int | None
    """Bytes of gradients that a worker exchanges in a step; null if that is not known."""
    trace: list[float] = field(default_factory=list)
    """Seconds of every timed step of rank 0, in order. If a GPU computes the steps, the observer waits for it only
    after several steps; each of these steps then has their mean, and `seconds` is null."""
    whole_epochs: bool = True
    """False if the end of an epoch is not known, or no epoch was finished; then the whole run counts as one epoch."""
    gaps: int | None = None
    """Number of epochs for which the time after their steps (validation, report, checkpoint) was measured; null if that
    is all epochs. If it is 0, the time of a further epoch is not known."""


@dataclass(frozen=True, kw_only=True)
class StepParts:
    """How the time of a timed step is divided into parts: means, in seconds."""

    seconds: dict[str, float]
    """Seconds by part, on rank 0: `input`, `compute`, `exchange`, `collective`, `optimizer`, `between`, `save`,
    `report`. Their sum is the time of a step. A part that cannot be told from others is left out, and its time is in
    theirs."""
    exchange: list[float]
    """Seconds of the exchange, for each rank: from its last gradient until all gradients are exchanged; empty if not
    known."""
    link: float | None
    """Mean over the steps of the shortest exchange of any rank: the time of an exchange in which no rank waits for
    another. Null if the exchange is not known."""
    own_work: list[list[float]]
    """For each rank, the mean seconds of a step in which it did not wait for other ranks, in each of about ten sections
    of the timed steps."""

    def waiting(self, rank: int) -> float | None:
        """Return the seconds of a step for which the rank waited for slower ranks; None if `exchange` is not known."""
        return None if self.link is None else self.exchange[rank] - self.link


@dataclass(frozen=True, kw_only=True)
class Amount:
    """The amount of work that the timed steps did, over all workers."""

    unit: str
    """Unit of the work, in the plural: `images`."""
    timed: int | None
    """Amount of work in the timed steps; null if it is not known."""
    per_second: float | None
    per_step: int | None
    """The global batch: the amount of work in a step; null if steps differ, or it is not known."""
    known: str = "counted"
    """How the amount is known: `counted` where the data reach the training, `reported` by the script, or `unknown`."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Score of a run at one point of its training."""

    seconds: float | None
    """Time of the steps so far; warm-up steps count as the mean timed step. Null where no step was timed."""
    score: float
    """Score on held-out data; higher is better."""


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A number that a script reported of itself, and when."""

    seconds: float
    """Seconds since the start of the run."""
    value: float


@dataclass(frozen=True, kw_only=True)
class SearchOutcome:
    """The trials of a search, summed up. `reasons` say under `search.<key>` why a part is null."""

    finished: int
    """Trials that trained to their end."""
    stopped: int
    """Trials that the search ended before their end."""
    failed: int
    """Trials that failed; none is retried."""
    epochs_trained: int | None
    """Epochs of all trials except failed ones; null if the epochs of a trial were not seen."""
    trial_seconds: float
    """Mean time of a trial, from the start of its process to its end."""
    between_trials_seconds: float
    """Mean time for which a slot waits between two trials, as long as a trial is left for it."""
    best_config: str | None
    """Canonical JSON of the settings of the finished trial with the best metric; null if no trial finished."""
    best_metric: float | None
    """Metric of that trial."""


@dataclass(frozen=True, kw_only=True)
class MadeRanks:
    """How this project distributed a script that trains in one process, what was proved of its ranks, and how a user
    would distribute it."""

    words: str
    """What each rank did, in words."""
    proof: str
    """What was proved of the ranks, in words."""
    write: str
    """What a user writes to distribute the script in this way."""
    port: str = ""
    """The smallest change that distributes the script, as a diff, which was itself run; "" if there is none, and
    `write` says why."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """Result of one run of one arm: what all workloads have, and in `detail` what the run's own workload adds."""

    workload: str
    arm: str
    recipe: dict[str, Any]
    provenance: Provenance
    started_at: str
    """Start of the run in UTC, ISO 8601."""
    world_size: int | None
    """Number of replicas that the framework saw; null if no step was seen, or the number is not known."""
    epochs_completed: int
    seconds: Seconds
    steps: Steps
    amount: Amount
    scores: dict[str, float | None]
    """Scores by the names that its workload gives them."""
    curve: list[Point]
    """The score that training follows, with one point after each epoch."""
    schedule: list[float]
    """Learning rate of each epoch, which may follow the scores and so differ between arms. Empty for a script."""
    work: dict[str, float]
    """Sizes of model and data by name; they must be the same in all arms of a repeat."""
    workers: list[Worker]
    checks: dict[str, bool | None]
    """Results of the checks during the run, by name; null if something was not checked, with a reason in `reasons`."""
    detail: Any
    """What the workload itself adds (of type `Workload.detail`); null in a summary."""
    ray: RayCluster | None = None
    ray_head: RayHead | None = None
    """The pod of Ray's head; null if Ray does not run in pods."""
    ray_ran: bool | None = None
    """True if processes of a script started or joined Ray by themselves; null if that was not checked."""
    reported: dict[str, list[Reported]] = field(default_factory=dict)
    """Numbers that a script reported on rank 0, by name, in order."""
    did: dict[str, str] = field(default_factory=dict)
    """What a script did by item, by which its arms are compared; `reasons` has missing ones under `work.<item>`."""
    left_files: list[str] = field(default_factory=list)
    """Names of the first few files that a script created or changed in its own folder, where later runs find them."""
    weights: str | None = None
    """SHA-256 of the trained weights, equal on all ranks; null where they were not looked at or differ."""
    retries: int | None = None
    """Number of failures of workers after each of which Ray Train restarted them; null if the first failure would have
    ended the run."""
    data_wait_seconds: float | None = None
    """Seconds that the rank which waited longest waited for batches; null if their delivery was not seen."""
    first_batch_seconds: float | None = None
    """Seconds from the start until the last rank had its first batch; null if the delivery of batches was not seen."""
    step_parts: StepParts | None = None
    """How the time of a step is divided; null if the parts of a step were not timed."""
    search: SearchOutcome | None = None
    """The trials, summed up; null if the run was no search."""
    made_ranks: MadeRanks | None = None
    """How this project made the ranks; null if the script made its ranks itself, or is one process."""
    machine: MachineUse | None = None
    """CPU time of this machine that other programs and the run itself used during the run; null if not read."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons why values are null, by the values' dotted names: `seconds.train`."""
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON data with camelCase keys."""
        return typing.cast("dict[str, Any]", encode(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TrainingResult":
        """Return a result from JSON data. Raises ResultError on another version, a missing key or a wrong type."""
        version = data.get("schemaVersion")
        if version != SCHEMA_VERSION:
            raise ResultError(
                f"schemaVersion is {version!r}; this program reads {SCHEMA_VERSION}, and another version wrote this"
            )
        known = {key: value for key, value in data.items() if key not in _GONE}
        result = typing.cast("TrainingResult", decode(cls, known, "result"))
        if result.detail is None:
            return result
        try:
            kind = named(result.workload).detail
        except ValueError as error:
            raise ResultError(f"result.{error}") from None
        return dataclasses.replace(result, detail=decode(kind, result.detail, "result.detail"))

    def write(self, path: Path) -> None:
        """Write the result to the file as JSON: the whole file, or nothing."""
        write_whole(path, json.dumps(self.to_dict(), indent=1, sort_keys=True, allow_nan=False) + "\n")

    def summary(self, path: str, sha256: str) -> dict[str, Any]:
        """Return the result as JSON data for Pulumi's state: without series and detail, with the file's path and
        SHA-256."""
        workers = [dataclasses.replace(worker, samples=[], gpu=without_samples(worker.gpu)) for worker in self.workers]
        short = dataclasses.replace(self, detail=None, steps=dataclasses.replace(self.steps, trace=[]), workers=workers)
        return short.to_dict() | {"path": path, "sha256": sha256}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A result as Pulumi's state keeps it. Its series and its detail are only in the file at `path`."""

    result: TrainingResult
    path: str
    """Path of the result's file, relative to the project."""
    sha256: str
    """SHA-256 of the result's file."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Summary":
        """Return the summary that data from `TrainingResult.summary` describe. Raises ResultError for another version,
        a missing key or a wrong type."""
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
    """Return the summary of the result at `path` as canonical JSON, with the path relative to `project`."""
    content = read(path)
    name = os.path.relpath(path, project)
    return canonical(content.summary(name, hashlib.sha256(path.read_bytes()).hexdigest()))
