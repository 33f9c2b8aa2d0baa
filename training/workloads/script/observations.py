"""What an observer saw, typed: one observation a rank. Pure. `observation_files` reads it."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from training.contract.cpu_use import CpuWait
from training.contract.gpu_use import GpuUse
from training.workloads.script.step_clock import SeenPass, pass_steps

RLLIB = "rllib"
"""Framework of an observation whose world is RLlib's runners: the process that learns speaks for them."""
BOOSTERS = ("xgboost", "lightgbm")
"""Frameworks of which a step is a round, which goes over all rows."""
LEAST_TIMED = 3
"""Steps whose median is a step's time."""


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
        """Return numbers that had one in any step."""
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
        """Return rows, each counted once."""
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
        """Return when its first step had been computed, in seconds of the wall clock."""
        return self.device_marks[0][1] if self.device_marks else self.step_ends[0]

    @property
    def step_seconds(self) -> float | None:
        """Return the median step of the later half: the first ones warm up."""
        return settled_step_seconds(self.step_ends)

    @property
    def pass_steps(self) -> list[int]:
        """Return steps of each pass that was finished."""
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
        """Return rows of a pass: as they were delivered in the first that was finished, else as announced."""
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
        """Return the median over steps, so that a loader that draws ahead or a short last batch counts nothing; None
        where most steps had nothing delivered."""
        return statistics.median(self.rows_of_steps) or None if self.step_rows else None

    @property
    def rows_of_steps(self) -> list[int]:
        """Return rows that were delivered for each step; none where they are not counted."""
        rows = self.step_rows or ()
        return [after - before for before, after in zip((0, *rows), rows, strict=False)]


def settled_step_seconds(step_ends: Sequence[float]) -> float | None:
    """Return the median step of the later half; None for too few."""
    times = [after - before for before, after in itertools.pairwise(step_ends)]
    settled = times[len(times) // 2 :] if len(times) >= 2 * LEAST_TIMED else times[1:]
    return statistics.median(settled) if len(settled) >= LEAST_TIMED else None
