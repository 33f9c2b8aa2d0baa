"""What the observer wrote, typed: one observation a rank. Pure but for `read`."""

import base64
import itertools
import json
import math
import statistics
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from training.contract.recipe import camel

RLLIB = "rllib"
"""Framework of an observation whose world is RLlib's runners: the process that learns speaks for them."""
LEAST_TIMED = 3
"""Steps whose median is a step's time."""
MOST_WORK = 0.9
"""Of a process's CPU seconds."""


@dataclass(frozen=True, kw_only=True)
class RankPod:
    """The pod of a rank, or the node of a Ray cluster that it is on."""

    node: str
    name: str | None
    """None: it is no pod."""
    cpu_model: str
    container_cpu: list[list[float]] | None
    """[seconds since the epoch, CPU seconds of the container so far]: at the start of the process, without its own,
    and at the end of the training; None where that is not counted."""
    throttled_seconds: float | None
    """That its CPU limit held the container back meanwhile; likewise."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One rank of one run. What is not known is None."""

    rank: int
    world: int
    framework: str
    threads: int | None
    ray: bool
    """Whether it had started Ray, or joined one, by its first step."""
    step_ends: tuple[float, ...]
    """Seconds of the wall clock."""
    step_rows: tuple[int, ...] | None
    """Rows that were delivered up to the end of each step."""
    reported_rows: int | None
    """Rows of one step over all ranks, as Keras' `fit` was told."""
    epoch_rows: int | None
    """Rows of one pass of this rank's loader."""
    epoch_steps: int | None
    first_pass: bytes | None
    """A byte a row of the data set: 1 where it was delivered in the first pass."""
    weights: str | None
    learning_rates: tuple[float | None, float | None]
    """At the first step and at the last."""
    metrics: dict[str, float]
    metric_points: tuple[tuple[float, str, float], ...]
    """Each number that the script reported: seconds of the wall clock, name, value."""
    reports: int
    """Calls of `ray.train.report`."""
    report_seconds: float
    hook_seconds: float
    own_seconds: float
    """What the observer took after the training, or between two trainings: a digest, a probe and the wait for it."""
    cpu_at_step: tuple[float, ...]
    """CPU seconds of this process so far, at the end of each step."""
    samples: tuple[tuple[float, float, float], ...]
    """Seconds since the first step, CPUs in use, resident bytes."""
    affinity: tuple[int, ...] | None
    """CPUs that the threads may use which did nearly all of its work; None where the system does not say."""
    peak_memory_bytes: int | None
    gradient_bytes: int | None
    all_reduce: dict[str, float] | None
    """Seconds by the bytes of a buffer."""
    no_all_reduce: str
    """Why there is none, where there should be one."""
    ended_early: bool
    notes: tuple[str, ...]
    pod: RankPod | None = None
    """None on the machine that measures."""

    @property
    def step_seconds(self) -> float | None:
        """The median step of the later half: the first ones warm up."""
        return settled_step_seconds(self.step_ends)

    @property
    def steps_per_epoch(self) -> int | None:
        """By its rows, where they are counted: a step may take several batches."""
        if self.epoch_rows and self.rows_per_step:
            return math.ceil(self.epoch_rows / self.rows_per_step)
        return self.epoch_steps

    @property
    def rows(self) -> int | None:
        """That reached this rank; None where they could not be counted."""
        return self.step_rows[-1] if self.step_rows else None

    @property
    def rows_per_step(self) -> float | None:
        """The median over steps, so that a loader that draws ahead or a short last batch counts nothing."""
        if not self.step_rows:
            return None
        counted = [after - before for before, after in zip((0, *self.step_rows), self.step_rows, strict=False)]
        return statistics.median(counted)


def cpus_at_work(thread_cpus: Sequence[tuple[Sequence[int], float]]) -> tuple[int, ...]:
    """The CPUs of threads by the CPU seconds that they used, until these make up MOST_WORK.

    A thread that OpenMP bound to one CPU computes there, and that others which hardly work may use more says nothing.
    """
    total, done, cpus = sum(seconds for _, seconds in thread_cpus), 0.0, set[int]()
    for allowed, seconds in sorted(thread_cpus, key=lambda one: -one[1]):
        if cpus and done >= MOST_WORK * total:
            break
        cpus.update(allowed)
        done += seconds
    return tuple(sorted(cpus))


def settled_step_seconds(step_ends: Sequence[float]) -> float | None:
    """The median step of the later half; None for too few."""
    times = [after - before for before, after in itertools.pairwise(step_ends)]
    settled = times[len(times) // 2 :] if len(times) >= 2 * LEAST_TIMED else times[1:]
    return statistics.median(settled) if len(settled) >= LEAST_TIMED else None


def read(folder: Path) -> list[Observation]:
    """The observations in `folder`, by rank; none where no step was seen."""
    files = sorted(folder.glob("rank-*.json"))
    found = [parse(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return sorted(found, key=lambda one: one.rank)


def parse(data: dict[str, Any]) -> Observation:
    """One observation from its file."""
    rows, thread_cpus, pod = data["firstPassRows"], data["threadCpus"], data.get("pod")
    return Observation(
        rank=data["rank"],
        world=data["world"],
        framework=data["framework"] or "unknown",
        threads=data["threads"],
        ray=data["ray"],
        step_ends=tuple(end + data["clockOffset"] for end in data["stepEnds"]),
        step_rows=tuple(data["rowsAtStep"]) if data["rowsAtStep"] else None,
        reported_rows=data["rowsPerStepReported"],
        epoch_rows=data["epochRows"],
        epoch_steps=data["epochBatches"],
        first_pass=zlib.decompress(base64.b64decode(rows)) if rows else None,
        weights=data["weights"],
        learning_rates=(data["learningRates"][0], data["learningRates"][1]),
        metrics=data["metrics"],
        metric_points=tuple((at + data["clockOffset"], name, value) for at, name, value in data["metricPoints"]),
        reports=data["reports"],
        report_seconds=data["reportSeconds"],
        hook_seconds=data["hookSeconds"],
        own_seconds=data["ownSeconds"],
        cpu_at_step=tuple(data["cpuAtStep"]),
        samples=tuple((at, cpus, resident) for at, cpus, resident in data["samples"]),
        affinity=cpus_at_work(thread_cpus) if thread_cpus else None,
        peak_memory_bytes=data["peakMemoryBytes"],
        gradient_bytes=data["gradientBytes"],
        all_reduce=data["allReduce"],
        no_all_reduce=data["noAllReduce"],
        ended_early=data["endedEarly"],
        notes=tuple(data["notes"]),
        pod=RankPod(**{field.name: pod[camel(field.name)] for field in fields(RankPod)}) if pod else None,
    )
