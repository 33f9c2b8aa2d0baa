"""The observer's files, typed: one observation a rank. Pure but for `read`."""

import base64
import itertools
import json
import math
import statistics
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from training.contract.cpu_use import CpuWait
from training.contract.gpu_use import UNKNOWN, GpuUse
from training.contract.recipe import camel
from training.workloads.script.step_clock import SeenPass, pass_steps

RLLIB = "rllib"
"""Framework of an observation whose world is RLlib's runners: the process that learns speaks for them."""
BOOSTERS = ("xgboost", "lightgbm")
"""Frameworks of which a step is a round, which goes over all rows."""
LEAST_TIMED = 3
"""Steps whose median is a step's time."""
MOST_WORK = 0.9
"""Share of a process's CPU seconds that its working threads make up."""


@dataclass(frozen=True, kw_only=True)
class RankPod:
    """The pod of a rank, or the node of a Ray cluster that it is on."""

    node: str
    name: str | None
    """Name of the pod; None for a node of a Ray cluster."""
    cpu_model: str
    container_cpu: list[list[float]] | None
    """[seconds since the epoch, CPU seconds of the container so far]: at the start of the process, without its own,
    and at the end of the training; None where that is not counted."""
    throttled_seconds: float | None
    """Time for which its CPU limit held the container back meanwhile; None where that is not counted."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """One that stepped, of one rank."""

    steps: int
    left_out: int
    """Of these, by a GradScaler."""
    most_between: int
    """The most of its steps between two that count."""
    first: int
    """Steps that counted before its first."""
    rounds: int
    """Steps that count, from its first to its last."""
    even: bool
    """True if as many steps that count lay between any two of its own, but for one."""
    rates: tuple[tuple[float, ...], ...]
    """First, highest and mean learning rate of each of its groups; then, if known, the share of the steps at which the
    rates have their centre, and the root of their mean square."""
    settings: tuple[str, ...]
    """Other settings that decide a step of it, one after another."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule that set learning rates."""

    rule: str
    """Its class, constants, and how often it stepped."""
    follows: str
    """`metric`, `steps`, or "" if that is not known."""
    even: bool
    """True if as many steps of its optimizer lay between any two of its own."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Numbers of the parameters that had a gradient in a step."""

    always: int
    at_first: int
    """In a first phase of the run alone."""
    later: int
    """From a later step on."""
    at_times: int
    """In some steps, and not in others between these."""
    seldom: int
    """In so few steps that another run may have none by chance; also counted by one of the kinds above."""
    phase_share: float
    """Mean share of the steps in which those with a phase had one; 0 without any."""
    share: float
    """Mean share that had one in a step."""
    share_error: float
    """Standard error of that mean."""

    @property
    def ever(self) -> int:
        """Numbers that had one in any step."""
        return self.always + self.at_first + self.later + self.at_times


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The input of the first module that has parameters, in training."""

    types: tuple[str, ...]
    numbers: int
    """Numbers in all, from the second step on."""
    sizes: tuple[int, ...]
    """Numbers that entered at a time, each once."""
    varies: bool
    """True if the amount varied, other than at the end of an epoch, or a step called the model as it liked."""
    autocast: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MarkedPass:
    """The rows that a rank had in one of its passes over the data set."""

    start: int
    """Steps that were made before it."""
    drawn: int
    """Rows, each as often as it was delivered."""
    rows: bytes
    """A byte a row of the data set: 1 where it was delivered."""

    @property
    def delivered(self) -> int:
        """Rows, each counted once."""
        return self.rows.count(1)


@dataclass(frozen=True, kw_only=True)
class RankWork:
    """The work of a rank besides its steps and rows."""

    optimizers: tuple[Optimizer, ...]
    more_optimizers: int
    """Others that stepped, of which nothing is known."""
    schedules: tuple[Schedule, ...]
    rates_by_hand: bool
    """True if something else than the schedules set a learning rate."""
    digests: dict[tuple[int, int], str]
    """Digests of the weights, by the Joins that had ended, and the steps since the last one."""
    ends: dict[tuple[int, int], str | None]
    """Digests of a model's weights when another one was trained, by the same; None where they were gone."""
    in_joins: dict[tuple[int, int], str]
    """Digests of the weights within Joins, before ranks get the same ones."""
    joins: tuple[int, ...]
    """Steps before the end of each Join, within which ranks may make different numbers of steps."""
    parameters: str | None
    """Number and type of the parameters: `17154 float32`."""
    trained: Trained | None
    """None where no step was looked at."""
    inputs: Inputs | None
    """Input of the first module that has parameters; None where that was not seen."""
    no_input: str
    """Reason why it was not seen."""
    steps_without_input: int
    """Steps in which that module was not called, though others may have been."""
    booster_parameters: str | None
    """Parameters of a booster."""
    rounds: int | None
    """Rounds that a booster was told to make."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Where the time of each step went, on one rank."""

    seconds: dict[str, list[float]]
    """Of each step, by part."""
    no_parts: str
    """Reason why no part is known; "" if they are."""
    no_input: str
    """Reason why the time of input is not known; "" if it is."""
    no_exchange: str
    """Reason why the time of the exchange is not known; "" if it is."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One rank of one run. What is not known is None."""

    rank: int
    world: int
    framework: str
    threads: int | None
    ray: bool
    """True if it had started or joined Ray by its first step."""
    step_ends: tuple[float, ...]
    """Seconds of the wall clock."""
    step_rows: tuple[int, ...] | None
    """Rows that were delivered up to the end of each step."""
    rows_of_all_steps: bool
    """True if one data set was read for every step, and no other was trained on."""
    reported_rows: int | None
    """Rows of one step over all ranks, as Keras' `fit` was told."""
    announced_rows: int | None
    """Rows of one pass of this rank's loader, as its sampler says."""
    epoch_steps: int | None
    passes: tuple[SeenPass, ...]
    """Over the data set that is trained on; none where they are not known."""
    validations: int
    """Passes from which nothing was learned."""
    dataset_rows: int | None
    """Rows that there are to draw from."""
    dataset_identity: str | None
    """Equal for equal content; None where that can't be told."""
    dataset_content: str | None
    """Likewise, but for the last digits of its numbers, which depend on threads."""
    marked: tuple[MarkedPass, ...] | None
    """The first pass, one amid them, and the last; None where rows have no numbers."""
    pass_sums: tuple[tuple[int, ...], ...]
    """Of each pass: steps before it, rows, and sums by which ranks know that they had the same; none where those say
    nothing."""
    rows_ahead: bool
    """True if another thread than that of the steps read them."""
    work: RankWork
    weights: str | None
    metrics: dict[str, float]
    metric_points: tuple[tuple[float, str, float], ...]
    """Numbers that the script reported: seconds of the wall clock, name, value."""
    reports: int
    """Calls of `ray.train.report`."""
    report_seconds: float
    hook_seconds: float
    own_seconds: float
    """Time that the observer took after the training, or between two trainings: a digest, a probe and the wait for
    it."""
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
    """Reason why there is none, if there should be one."""
    ended_early: bool
    waited_seconds: float
    """Time for which it waited for its search to decide whether it goes on; part of `own_seconds`."""
    notes: tuple[str, ...]
    lost: Mapping[str, str] = field(default_factory=dict)
    """Items of the same work, and names of other numbers, that are not known because the observer failed, and why."""
    no_numbers: Mapping[str, str] = field(default_factory=dict)
    """What the script reported, by name, and what it is, where it is no number."""
    executed_together: int = 1
    """The most steps whose ends were told at once, as of Keras' `steps_per_execution`: each has the mean length."""
    data_wait_seconds: float | None = None
    """Time that it waited for batches that something was learned from, from asking for an iterator or a batch on; None
    where none was seen to be delivered."""
    first_batch_at: float | None = None
    """When it had the first of these, in seconds of the wall clock."""
    device_marks: tuple[tuple[int, float], ...] | None = None
    """Steps after which an accelerator was waited for, each with the seconds of the wall clock at which it had computed
    them; None where none computes, and so `step_ends` are the ends of the steps."""
    device_every: int | None = None
    """Steps from one such wait to the next."""
    gpu: GpuUse | None = None
    """What its GPU did; None where none computes."""
    gpu_reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Parts | None = None
    """Parts of its steps; None where nothing tells them apart."""
    pod: RankPod | None = None
    """Pod or node of the rank; None on the machine that measures."""
    cpu_waits: dict[str, CpuWait] | None = None
    """Waits of the `training` and of the `run`; None where they are not counted."""

    @property
    def first_step_at(self) -> float:
        """When its first step had been computed, in seconds of the wall clock."""
        return self.device_marks[0][1] if self.device_marks else self.step_ends[0]

    @property
    def step_seconds(self) -> float | None:
        """The median step of the later half: the first ones warm up."""
        return settled_step_seconds(self.step_ends)

    @property
    def pass_steps(self) -> list[int]:
        """Steps of each pass that was finished."""
        return pass_steps(self.passes, len(self.step_ends))

    @property
    def has_whole_epochs(self) -> bool:
        """Return whether every step was made in a finished pass, and all passes have the same number of steps."""
        steps = self.pass_steps
        return len(set(steps)) == 1 and sum(steps) == len(self.step_ends) and not self.ended_early

    @property
    def steps_per_epoch(self) -> int | None:
        """Return the steps of a finished pass, else the announced number: a step may take several batches."""
        if self.pass_steps:
            return self.pass_steps[0]
        if self.announced_rows and self.rows_per_step:
            return math.ceil(self.announced_rows / self.rows_per_step)
        return self.epoch_steps

    @property
    def epoch_rows(self) -> int | None:
        """Rows of a pass: as they were delivered in the first that was finished, else as announced."""
        if self.pass_steps and self.step_rows and self.rows_of_all_steps:
            return self.step_rows[self.pass_steps[0] - 1]
        return self.announced_rows

    @property
    def rows(self) -> int | None:
        """Return the rows that reached this rank; None if they could not be counted, or belong to some of its steps
        only."""
        return self.step_rows[-1] if self.step_rows and self.rows_of_all_steps else None

    @property
    def rows_per_step(self) -> float | None:
        """The median over steps, so that a loader that draws ahead or a short last batch counts nothing; None where
        most steps had nothing delivered."""
        return statistics.median(self.rows_of_steps) or None if self.step_rows else None

    @property
    def rows_of_steps(self) -> list[int]:
        """Rows that were delivered for each step; none where they are not counted."""
        rows = self.step_rows or ()
        return [after - before for before, after in zip((0, *rows), rows, strict=False)]


def cpus_at_work(thread_cpus: Sequence[tuple[Sequence[int], float]]) -> tuple[int, ...]:
    """The CPUs of threads by the CPU seconds that they used, until these make up MOST_WORK.

    A thread that OpenMP bound to one CPU computes there, and that others which hardly work may use more says nothing.
    """
    total, done, cpus = sum(seconds for _, seconds in thread_cpus), 0.0, set[int]()
    for allowed, seconds in sorted(thread_cpus, key=lambda cpus_and_seconds: -cpus_and_seconds[1]):
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
    observations = [parse(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    return sorted(observations, key=lambda observation: observation.rank)


def parse(data: dict[str, Any]) -> Observation:
    """One observation from its file."""
    thread_cpus, pod, device = data["threadCpus"], data.get("pod"), data.get("device") or {}
    data, lost = _without_lost(data), data.get("unknown") or {}
    return Observation(
        rank=data["rank"],
        world=data["world"],
        framework=data["framework"] or "unknown",
        threads=data["threads"],
        ray=data["ray"],
        step_ends=tuple(end + data["clockOffset"] for end in data["stepEnds"]),
        step_rows=tuple(data["rowsAtStep"]) if data["rowsAtStep"] else None,
        rows_of_all_steps=data["rowsOfAllSteps"],
        reported_rows=data["rowsPerStepReported"],
        announced_rows=data["epochRows"],
        epoch_steps=data["epochBatches"],
        passes=_passes(data),
        validations=data["validations"],
        dataset_rows=data["datasetRows"],
        dataset_identity=data["datasetIdentity"],
        dataset_content=data["datasetContent"],
        marked=_marked(data),
        pass_sums=tuple(map(tuple, data.get("passSums") or ())),
        rows_ahead=data["rowsAhead"],
        work=_work(data["work"]),
        weights=data["weights"],
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
        waited_seconds=data["waitedSeconds"],
        notes=tuple(data["notes"]),
        lost=lost,
        no_numbers=data.get("noNumbers") or {},
        executed_together=data.get("executedTogether") or 1,
        data_wait_seconds=data.get("dataWaitSeconds"),
        first_batch_at=None if data.get("firstBatchAt") is None else data["firstBatchAt"] + data["clockOffset"],
        device_marks=_marks(data),
        device_every=device.get("every"),
        gpu=_gpu(device),
        gpu_reasons=_gpu_reasons(device),
        parts=_parts(data),
        cpu_waits={name: CpuWait.of(read) for name, read in (data.get("cpuWaits") or {}).items()} or None,
        pod=RankPod(**{field.name: pod[camel(field.name)] for field in fields(RankPod)}) if pod else None,
    )


LOST: Mapping[str, Mapping[str, Any]] = {
    "rows": {"rowsAtStep": None, "epochRows": None, "rowsOfAllSteps": False},
    "rowsPerStep": {"rowsAtStep": None, "rowsPerStepReported": None},
    "rowsDisjoint": {"markedPasses": None},
    "weights": {"weights": None},
    "metrics": {"metrics": {}, "metricPoints": []},
    "dataWaitSeconds": {"dataWaitSeconds": None, "firstBatchAt": None},
    "meanCpus": {"cpuAtStep": [], "samples": []},
    "allReduce": {"allReduce": None},
    "peakMemoryBytes": {"peakMemoryBytes": None},
}
"""What a file says in place of numbers that are lost: some may be there, and wrong."""


def _without_lost(data: dict[str, Any]) -> dict[str, Any]:
    lost = data.get("unknown") or {}
    data = {**data, "parts": {**data["parts"], "noParts": lost.get("stepParts") or data["parts"]["noParts"]}}
    for item in LOST.keys() & lost.keys():
        data |= LOST[item]
    return data


def _gpu(device: dict[str, Any]) -> GpuUse | None:
    if not device:
        return None
    gpu = device["gpu"]
    return GpuUse(**{each.name: gpu[camel(each.name)] for each in fields(GpuUse)}) if gpu else UNKNOWN


def _gpu_reasons(device: dict[str, Any]) -> dict[str, str]:
    if gpu := device.get("gpu"):
        return dict(gpu["reasons"])
    return {"gpu": device["noGpu"]} if device.get("noGpu") else {}


def _marks(data: dict[str, Any]) -> tuple[tuple[int, float], ...] | None:
    device = data.get("device")
    return tuple((steps, at + data["clockOffset"]) for steps, at in device["marks"]) if device else None


def _parts(data: dict[str, Any]) -> Parts | None:
    if data["framework"] != "torch":
        return None
    return Parts(
        seconds={part: [each / 1e6 for each in steps] for part, steps in data["parts"]["microseconds"].items()},
        no_parts=data["parts"]["noParts"],
        no_input=data["parts"]["noInput"],
        no_exchange=data["parts"]["noExchange"],
    )


def _marked(data: dict[str, Any]) -> tuple[MarkedPass, ...] | None:
    if not data["markedPasses"]:
        return None
    return tuple(
        MarkedPass(start=start, drawn=drawn, rows=zlib.decompress(base64.b64decode(rows)))
        for start, drawn, rows in data["markedPasses"]
    )


def _passes(data: dict[str, Any]) -> tuple[SeenPass, ...]:
    if data["framework"] in BOOSTERS:
        return tuple(SeenPass(start=step, finished=True) for step in range(len(data["stepEnds"])))
    return tuple(SeenPass(start=start, finished=finished) for start, finished in data["passes"] or ())


def _work(data: dict[str, Any]) -> RankWork:
    return RankWork(
        optimizers=tuple(
            Optimizer(
                steps=optimizer["steps"],
                left_out=optimizer["leftOut"],
                most_between=optimizer["mostBetween"],
                first=optimizer["first"],
                rounds=optimizer["rounds"],
                even=optimizer["even"],
                rates=tuple(map(tuple, optimizer["rates"])),
                settings=tuple(optimizer["settings"]),
            )
            for optimizer in data["optimizers"]
        ),
        more_optimizers=data.get("moreOptimizers", 0),
        schedules=tuple(Schedule(rule=rule, follows=follows, even=even) for rule, follows, even in data["schedules"]),
        rates_by_hand=data["ratesByHand"],
        digests={_place(at): digest for at, digest in data["digests"].items()},
        ends={_place(at): digest for at, digest in data.get("ends", {}).items()},
        in_joins={_place(at): digest for at, digest in data["inJoins"].items()},
        joins=tuple(data["joins"]),
        parameters=data["parameters"],
        trained=Trained(**{each.name: data["trained"][camel(each.name)] for each in fields(Trained)})
        if data["trained"]
        else None,
        inputs=_inputs(data) if data["inputs"] else None,
        no_input=data["noInput"],
        steps_without_input=data["stepsWithoutInput"],
        booster_parameters=data["boosterParameters"],
        rounds=data["rounds"],
    )


def _place(at: str) -> tuple[int, int]:
    joins, _, steps = at.rpartition(":")
    return int(joins or 0), int(steps)


def _inputs(data: dict[str, Any]) -> Inputs:
    mode, seen = " in evaluation" if data["evaluates"] else "", data["inputs"]
    return Inputs(
        types=tuple(f"{kind}{mode}" for kind in seen["types"]),
        numbers=seen["numbers"],
        sizes=tuple(seen["sizes"]),
        varies=data["varies"],
        autocast=tuple(seen["autocast"]),
    )
