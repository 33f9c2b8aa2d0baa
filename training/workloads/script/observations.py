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
"""Framework of an observation made in the process that learns; its world size is the number of RLlib's runners."""
BOOSTERS = ("xgboost", "lightgbm")
"""Frameworks in which a step is one round of boosting, which goes over all rows."""
LEAST_TIMED = 3
"""Smallest number of steps whose median is taken as a step's time."""


@dataclass(frozen=True, kw_only=True)
class RankPod:
    """The pod of a rank, or the node of a Ray cluster on which the rank is."""

    node: str
    name: str | None
    """Name of the pod; None for a node of a Ray cluster."""
    cpu_model: str
    container_cpu: list[list[float]] | None
    """Two pairs [seconds since the epoch, CPU seconds of the container so far]; None where the CPU seconds are not
    counted. The first is from the start of the process, without the process's own CPU seconds, and the second from the
    end of the training."""
    throttled_seconds: float | None
    """Seconds for which the CPU limit held the container back in that time; None where they are not counted."""


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer that made steps on one rank."""

    steps: int
    left_out: int
    """Number of the steps that a GradScaler left out."""
    most_between: int
    """The largest number of this optimizer's steps between two steps that count."""
    first: int
    """Number of steps that counted before the first step of this optimizer."""
    rounds: int
    """Number of steps that count, from the first step of this optimizer to its last."""
    even: bool
    """True if as many steps that count lay between any two steps of this optimizer, with one exception at most."""
    rates: tuple[tuple[float, ...], ...]
    """First, highest and mean learning rate of each parameter group. Then, if known, the share of the steps at which
    the rates have their centre, and the root of the mean of their squares."""
    settings: tuple[str, ...]
    """The optimizer's other settings that decide a step, in the order in which the optimizer had them."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule that set learning rates."""

    rule: str
    """The schedule's class and constants, and how often it stepped."""
    follows: str
    """What the schedule follows: `metric`, `steps`, or "" if that is unknown."""
    even: bool
    """True if the same number of its optimizer's steps lay between any two steps of the schedule."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """How many numbers of the model's parameters had a gradient, by when they had one."""

    always: int
    at_first: int
    """Count of numbers that had a gradient in a first phase of the run alone."""
    later: int
    """Count of numbers that had a gradient from a later step on."""
    at_times: int
    """Count of numbers that had a gradient in some steps, and not in others between these."""
    seldom: int
    """Those of the numbers counted above with a gradient in so few steps that another run may have none by chance."""
    phase_share: float
    """Mean share of the steps in which the numbers of `at_first` and `later` had a gradient; 0 without such numbers."""
    share: float
    """Mean share of the numbers that had a gradient in a step."""
    share_error: float
    """Standard error of `share`."""

    @property
    def ever(self) -> int:
        """Return how many numbers had a gradient in any step."""
        return self.always + self.at_first + self.later + self.at_times


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The input of the first module that has parameters, in training."""

    types: tuple[str, ...]
    numbers: int
    """Count of numbers that entered the module in all, from the second step on."""
    sizes: tuple[int, ...]
    """Different counts of numbers that entered the module in one call."""
    varies: bool
    """True if the count varied other than at the end of an epoch, or if an optimizer calls the model as often as it
    likes (LBFGS)."""
    autocast: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MarkedPass:
    """The rows that a rank had in one of its passes over the data set."""

    start: int
    """Number of steps before the pass."""
    drawn: int
    """Number of rows drawn; a row that was delivered twice counts twice."""
    rows: bytes
    """One byte for each row of the data set: 1 where the row was delivered, 0 otherwise."""

    @property
    def delivered(self) -> int:
        """Return the number of different rows that were delivered."""
        return self.rows.count(1)


@dataclass(frozen=True, kw_only=True)
class RankWork:
    """The work of a rank besides its steps and rows."""

    optimizers: tuple[Optimizer, ...]
    more_optimizers: int
    """Number of further optimizers that stepped, of which nothing else is known."""
    schedules: tuple[Schedule, ...]
    rates_by_hand: bool
    """True if something else than the schedules set a learning rate."""
    digests: dict[tuple[int, int], str]
    """Digests of the weights, by (Joins of PyTorch that had ended, steps since the last of these)."""
    ends: dict[tuple[int, int], str | None]
    """Digests of the weights of a model when the script went on to another model, by the same keys; None where the
    weights were gone."""
    in_joins: dict[tuple[int, int], str]
    """Digests of the weights within Joins, before the Join gives all ranks the same weights."""
    joins: tuple[int, ...]
    """Number of steps before the end of each Join; within a Join ranks may make different numbers of steps."""
    parameters: str | None
    """Number and type of the parameters: `17154 float32`."""
    trained: Trained | None
    """Which parameters were trained; None where no step was looked at."""
    inputs: Inputs | None
    """Input of the first module that has parameters; None where the observer did not see it."""
    no_input: str
    """Reason why the observer did not see the input."""
    steps_without_input: int
    """Number of steps in which the first module with parameters was not called, though other modules may have been."""
    booster_parameters: str | None
    """Parameters of a booster (XGBoost or LightGBM), as text."""
    rounds: int | None
    """Number of rounds that a booster was told to make."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Where the time of each step went, on one rank."""

    seconds: dict[str, list[float]]
    """Seconds of each step, by part of the step."""
    no_parts: str
    """Reason why no part is known; "" if the parts are known."""
    no_input: str
    """Reason why the time of the input is unknown; "" if it is known."""
    no_exchange: str
    """Reason why the time of the exchange between ranks is unknown; "" if it is known."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the observer saw on one rank of one run. What is unknown is None."""

    rank: int
    world: int
    framework: str
    threads: int | None
    ray: bool
    """True if the rank had started or joined Ray by its first step."""
    step_ends: tuple[float, ...]
    """When each step ended, in seconds of the wall clock."""
    step_rows: tuple[int, ...] | None
    """Number of rows that were delivered up to the end of each step."""
    rows_of_all_steps: bool
    """True if one data set was read for every step, and no other was trained on."""
    reported_rows: int | None
    """Rows of one step over all ranks, as Keras' `fit` was told."""
    announced_rows: int | None
    """Rows of one pass of this rank's loader, as its sampler says."""
    epoch_steps: int | None
    passes: tuple[SeenPass, ...]
    """Passes over the data set on which the rank trains; empty where they are unknown."""
    validations: int
    """Number of passes from which nothing was learned."""
    dataset_rows: int | None
    """Number of rows from which the rank can draw."""
    dataset_identity: str | None
    """Digest that is equal for data sets with equal content; None where the content is unknown."""
    dataset_content: str | None
    """A digest of the same content without the last digits of its numbers, which depend on threads."""
    marked: tuple[MarkedPass, ...] | None
    """Rows of the first pass, of one in the middle, and of the last; None where rows have no numbers."""
    pass_sums: tuple[tuple[int, ...], ...]
    """For each pass: steps before it, its rows, and sums by which ranks see that they had the same rows; empty where
    the sums would say nothing."""
    rows_ahead: bool
    """True if another thread than the one that makes the steps read the rows."""
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
    """Seconds that the observer took after the training, or between two trainings, as for a digest."""
    cpu_at_step: tuple[float, ...]
    """CPU seconds that this process had used at the end of each step."""
    samples: tuple[tuple[float, float, float], ...]
    """Samples of (seconds since the first step, CPUs in use, resident bytes)."""
    affinity: tuple[int, ...] | None
    """CPUs that the threads may use which did nearly all of the process's work; None where the system does not say."""
    peak_memory_bytes: int | None
    gradient_bytes: int | None
    ended_early: bool
    waited_seconds: float
    """Seconds for which the trial waited for its search to decide whether it goes on; `own_seconds` includes them."""
    notes: tuple[str, ...]
    lost: Mapping[str, str] = field(default_factory=dict)
    """Items of the same work, and other numbers, that are unknown because the observer failed, with the reason."""
    no_numbers: Mapping[str, str] = field(default_factory=dict)
    """What the script reported that is not a number: its type, by name."""
    executed_together: int = 1
    """Most steps whose ends were told at once, as by Keras' `steps_per_execution`; each has the mean length."""
    data_wait_seconds: float | None = None
    """Seconds that the rank waited for batches it learned from, from when it asked for an iterator or a batch; None if
    the observer saw no batch delivered."""
    first_batch_at: float | None = None
    """When the rank had the first batch that it learned from, in seconds of the wall clock."""
    device_marks: tuple[tuple[int, float], ...] | None = None
    """Pairs of a number of steps and the seconds of the wall clock at which an accelerator had computed them, which the
    observer waits for. None where no accelerator computes, so that `step_ends` are the ends of the steps."""
    device_every: int | None = None
    """Number of steps from one wait for the accelerator to the next."""
    gpu: GpuUse | None = None
    """What the rank's GPU did; None where no GPU computes."""
    gpu_reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Parts | None = None
    """Time of each step by its parts; None where nothing tells the parts apart."""
    pod: RankPod | None = None
    """Pod or node of the rank; None if the run is on the machine that measures."""
    cpu_waits: dict[str, CpuWait] | None = None
    """How long the `training`, and the whole `run`, waited for a CPU; None where these waits are not counted."""

    @property
    def first_step_at(self) -> float:
        """Return when the rank's first step had been computed, in seconds of the wall clock."""
        return self.device_marks[0][1] if self.device_marks else self.step_ends[0]

    @property
    def step_seconds(self) -> float | None:
        """Return the median time of the steps in the later half, as the first warm up; None for too few steps."""
        return settled_step_seconds(self.step_ends)

    @property
    def pass_steps(self) -> list[int]:
        """Return the number of steps of each pass that was finished."""
        return pass_steps(self.passes, len(self.step_ends))

    @property
    def has_whole_epochs(self) -> bool:
        """Return whether every step was made in a finished pass, and all passes have the same number of steps."""
        steps = self.pass_steps
        return len(set(steps)) == 1 and sum(steps) == len(self.step_ends) and not self.ended_early

    @property
    def steps_per_epoch(self) -> int | None:
        """Return the steps of the first finished pass, else of the announced rows, else the announced batches, of which
        a step may take several; None if nothing is known."""
        if self.pass_steps:
            return self.pass_steps[0]
        if self.announced_rows and self.rows_per_step:
            return math.ceil(self.announced_rows / self.rows_per_step)
        return self.epoch_steps

    @property
    def epoch_rows(self) -> int | None:
        """Return how many rows the first finished pass delivered, or else how many the loader announced, if any."""
        if self.pass_steps and self.step_rows and self.rows_of_all_steps:
            return self.step_rows[self.pass_steps[0] - 1]
        return self.announced_rows

    @property
    def rows(self) -> int | None:
        """Return how many rows reached this rank; None if not counted, or if they belong to some of its steps only."""
        return self.step_rows[-1] if self.step_rows and self.rows_of_all_steps else None

    @property
    def rows_per_step(self) -> float | None:
        """Return the median number of rows over the steps; None where most steps had no rows delivered. With the
        median, a loader that draws ahead or a short last batch does not count."""
        return statistics.median(self.rows_of_steps) or None if self.step_rows else None

    @property
    def rows_of_steps(self) -> list[int]:
        """Return the number of rows that were delivered for each step; empty where rows are not counted."""
        rows = self.step_rows or ()
        return [after - before for before, after in zip((0, *rows), rows, strict=False)]


def settled_step_seconds(step_ends: Sequence[float]) -> float | None:
    """Return the median time of the steps in the later half, in seconds; None if there are too few steps."""
    times = [after - before for before, after in itertools.pairwise(step_ends)]
    settled = times[len(times) // 2 :] if len(times) >= 2 * LEAST_TIMED else times[1:]
    return statistics.median(settled) if len(settled) >= LEAST_TIMED else None
