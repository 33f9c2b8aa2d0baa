"""The catalogue: every number of an arm and every ratio between arms, once. Pure.

Tables, pages, comments, the stack's outputs and the docs are made from these entries; to add a number is to add one.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from compare import cost, quiet
from compare.clock import clock_of, epoch_seconds, seconds_to_score, seconds_to_target, whole_seconds
from compare.measurement import Measurement, Run, best_score
from compare.schema import Claim
from training.contract.recipe import WORKLOADS
from training.contract.result import MACHINE, NOTICEABLE_CPUS, TRAINING_WAIT, StepSeconds, Worker
from training.contract.workload import Score, Workload, named

NOT_MEASURED = "no repeat measured it"
NO_PRICE = "no price is set: priceCpuHour, priceGibHour"
NO_METRIC = "no metric is named, or it was not reported"
NO_TARGET = "no metricTarget is set, or not every run reached it"
NOT_ASKED = (NO_PRICE, NO_METRIC, NO_TARGET)
"""Why something is missing that no setting asked for."""
NO_CLUSTER = "no Ray cluster exists before this arm's runs start"
Better = Literal["lower", "higher", ""]
Value = Callable[[Run, Measurement], float | None]
"""A number of a run; None where it was not measured."""


def _every(_: Workload) -> bool:
    return True


def _has_scores(trained: Workload) -> bool:
    """Return whether the workload has its own scores; others report metrics, of which a setting names one."""
    return bool(trained.scores)


def _reports_metrics(trained: Workload) -> bool:
    return not trained.scores


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number of a run, shown for each arm as its median over the repeats."""

    name: str
    title: str
    meaning: str
    of: Value
    unit: str = ""
    digits: int = 2
    factor: float = 1
    """What a value is multiplied by to be shown in `unit`."""
    better: Better = ""
    because: str = ""
    """The key of a run's `reasons` that says why it is missing, if it is not the name."""
    otherwise: str = NOT_MEASURED
    """Why it is missing where no run says it."""
    column: str = ""
    """Heading in the text table; "": not there."""
    on_page: bool = True
    in_changes: bool = False
    """Whether two measurements are compared by it."""
    in_sweeps: str = ""
    """Heading in the table of a sweep, for each arm on its page; "": not there."""
    least: float | None = None
    """Shown only where a run of some arm had more."""
    only: Callable[[Workload], bool] = _every
    """Whether a workload has it."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A ratio, or a difference, of two arms' runs in one repeat. A quotient above 1 favours the arm below the line."""

    name: str
    title: str
    above: str
    """Name of an arm."""
    below: str
    of: Value
    meaning: str
    kind: Literal["quotient", "difference"] = "quotient"
    unit: str = "×"
    factor: float = 1
    per_worker: bool = False
    words: tuple[str, str] | None = ("slower", "faster")
    """What it says of Ray when it is below 1 with 95 % confidence, and above; None: 1 means nothing special."""
    because: str = "seconds.train"
    otherwise: str = "not measured in every repeat"
    detail: str = ""
    """What the docs add to the meaning."""
    in_changes: bool = False
    in_sweeps: str = ""
    """Heading in a sweep's text table; on its page stand all."""
    only: Callable[[Workload], bool] = _every
    """Whether a workload has it."""
    claims: tuple[Claim, ...] = ("same work",)
    """Under which it may be said."""

    def value(self, above: Run, below: Run, measurement: Measurement) -> float | None:
        """Return the ratio of two runs of one repeat; None if it can't be computed."""
        first, second = self.of(above, measurement), self.of(below, measurement)
        if first is None or second is None:
            return None
        if self.kind == "difference":
            return self.factor * (first - second)
        share = measurement.recipe.workers if self.per_worker else 1
        return self.factor * first / second / share if first > 0 and second > 0 else None


def _steps(part: Callable[[StepSeconds], float]) -> Value:
    return lambda run, _: part(run.result.steps.seconds) if run.result.steps.seconds else None


def _of_workers(part: Callable[[Worker], float | None], join: Callable[[Sequence[float]], float]) -> Value:
    """One number for the workers of a run; None unless all of them measured it."""

    def value(run: Run, _: Measurement) -> float | None:
        values = [part(worker) for worker in run.result.workers]
        present = [value for value in values if value is not None]
        return join(present) if present and len(present) == len(values) else None

    return value


def _score_seconds(run: Run, measurement: Measurement) -> float | None:
    score = measurement.common_score
    return None if score is None else seconds_to_score(run.result, score)


def _metric(run: Run, measurement: Measurement) -> float | None:
    return run.result.scores.get(measurement.target.name) if measurement.target else None


def _to_target(run: Run, measurement: Measurement) -> float | None:
    return seconds_to_target(run.result, measurement.target)


def _throughput(workload: Workload, unit: str) -> Measure:
    return Measure(
        name=f"{workload.unit}PerSecond", title=unit.capitalize(), unit="/s", digits=0, better="higher",
        column=f"{unit}/s", because="amount.perSecond", of=lambda run, _: run.result.amount.per_second,
        meaning=f"timed {unit} / trainSeconds",
    )  # fmt: skip


def _of_score(score: Score) -> Measure:
    return Measure(
        name=score.name, title=score.title, meaning=score.meaning, unit=score.unit, digits=score.digits,
        factor=score.factor, better=score.better, column=score.column, on_page=score.on_page,
        in_changes=score.in_changes, in_sweeps=score.in_sweeps, because=f"scores.{score.name}",
        of=lambda run, _: run.result.scores.get(score.name),
    )  # fmt: skip


PACE = (
    Measure(
        name="trainSeconds", title="Steady-state training", unit="s", better="lower", column="steady s",
        in_changes=True, because="seconds.train", of=lambda run, _: run.result.seconds.train,
        meaning="steady state: the timed steps of all epochs",
    ),
    Measure(
        name="secondsPerEpoch", title="Steps of an epoch", unit="s", better="lower", because="seconds.train",
        of=lambda run, _: epoch_seconds(run.result), meaning="mean timed step × steps an epoch",
    ),
)  # fmt: skip
CLOCKS = (
    Measure(
        name="startupSeconds", title="Start-up", unit="s", digits=1, better="lower", column="start-up s",
        in_changes=True, of=lambda run, _: run.result.seconds.startup,
        meaning="start of the process or container to the first optimizer step",
    ),
    Measure(
        name="warmupSeconds", title="Warm-up steps", unit="s", better="lower",
        of=lambda run, _: run.result.seconds.warmup, meaning="first steps, which train but are not timed",
    ),
    Measure(
        name="evaluationSeconds", title="Evaluation", unit="s", better="lower",
        of=lambda run, _: run.result.seconds.evaluation,
        meaning="validation after each epoch, and the test at the end",
    ),
    Measure(
        name="reportSeconds", title="Reports to Ray", unit="s", better="lower", on_page=False,
        because="seconds.report", of=lambda run, _: run.result.seconds.report,
        meaning="in ray.train.report; null for arms that have none",
    ),
    Measure(
        name="checkpointSeconds", title="Checkpoints", unit="s", better="lower", only=_has_scores,
        because="seconds.checkpoint", of=lambda run, _: run.result.seconds.checkpoint,
        meaning="writing checkpoints and keeping them in storage, between the epochs; null without `checkpointEpochs`",
    ),
    Measure(
        name="wallSeconds", title="End to end", unit="s", digits=1, better="lower", column="end-to-end s",
        in_changes=True, of=lambda run, _: whole_seconds(run.result),
        meaning="start of the process or container to the result, without our own probes",
    ),
    Measure(
        name="rayClusterStartSeconds", title="Start of Ray's cluster, once", unit="s", digits=0, better="lower",
        otherwise=NO_CLUSTER,
        of=lambda run, _: run.result.ray_head.cluster_start_seconds if run.result.ray_head else None,
        meaning="from the RayCluster's creation until all its pods were ready, images fetched included: it is kept "
        "over updates, so it is in no other number",
    ),
    Measure(
        name="probeSeconds", title="Our own probes", unit="s", on_page=False,
        of=lambda run, _: run.result.seconds.probe,
        meaning="left out of wallSeconds: comparing the workers, and the native arm's all-reduce probe",
    ),
    Measure(
        name="timeToAccuracySeconds", title="Time to accuracy", unit="s", better="lower", because="seconds.train",
        only=_has_scores,
        in_sweeps="s to acc.",
        of=_score_seconds, meaning="training seconds until the validation accuracy that every compared run reached",
    ),
)  # fmt: skip
MORE = (
    Measure(
        name="metric", title="Metric", digits=4, only=_reports_metrics, column="metric", otherwise=NO_METRIC,
        of=_metric,
        meaning="last value of the metric that the key `metric` names",
    ),
    Measure(
        name="secondsToTarget", title="Time to the target", unit="s", digits=1, better="lower", only=_reports_metrics,
        otherwise=NO_TARGET, of=_to_target,
        meaning="start of the script until it first reported a metric as good as `metricTarget`",
    ),
    Measure(
        name="bestValidationAccuracy", title="Best validation accuracy", unit="%", factor=100, better="higher",
        only=_has_scores,
        on_page=False, of=lambda run, _: best_score(run.result), meaning="best epoch",
    ),
    Measure(
        name="epochsCompleted", title="Epochs", digits=0, on_page=False,
        of=lambda run, _: run.result.epochs_completed, meaning="epochs trained",
    ),
    Measure(
        name="stepSecondsMean", title="Step, mean", unit="ms", digits=1, factor=1000, better="lower", on_page=False,
        because="steps.seconds", of=_steps(lambda steps: steps.mean), meaning="mean timed step of rank 0",
    ),
    Measure(
        name="stepSecondsP50", title="Step, median", unit="ms", digits=1, factor=1000, better="lower",
        because="steps.seconds", of=_steps(lambda steps: steps.p50), meaning="median timed step of rank 0",
    ),
    Measure(
        name="stepSecondsP95", title="Step, 95th percentile", unit="ms", digits=1, factor=1000, better="lower",
        because="steps.seconds", of=_steps(lambda steps: steps.p95),
        meaning="95th percentile of rank 0's timed steps",
    ),
    Measure(
        name="stepSecondsMax", title="Step, slowest", unit="ms", digits=1, factor=1000, better="lower", on_page=False,
        because="steps.seconds", of=_steps(lambda steps: steps.max), meaning="slowest timed step of rank 0",
    ),
    Measure(
        name="peakMemoryBytes", title="Peak memory of a worker", unit="MiB", digits=0, factor=1 / 2**20,
        better="lower", column="peak MiB", of=_of_workers(lambda worker: worker.peak_memory_bytes, max),
        meaning="of the arm's largest worker",
    ),
    Measure(
        name="meanCpus", title="CPUs in use of a worker", of=_of_workers(lambda w: w.mean_cpus, statistics.fmean),
        meaning="CPU seconds a second of a worker, mean over the workers",
    ),
    Measure(
        name="throttledSeconds", title="Held back by the quota", unit="s", digits=1, better="lower",
        of=_of_workers(lambda worker: worker.throttled_seconds, max),
        meaning="time that the cgroup held the arm's most throttled worker back",
    ),
    Measure(
        name="otherCpus", title="CPUs that other programs took", better="lower",
        because=MACHINE, least=NOTICEABLE_CPUS, of=lambda run, _: quiet.other_cpus(run),
        meaning="of this machine during a run, without the run's own processes and Pulumi",
    ),
    Measure(
        name="waitedShare", title="Waited for a CPU", unit="%", digits=1, factor=100, better="lower",
        because=TRAINING_WAIT, of=lambda run, _: quiet.waited_share(run),
        meaning="of all ranks, over the training: seconds that they waited for a CPU / that they had one; other "
        "programs or ranks had it",
    ),
    Measure(
        name="cpuHours", title="CPU hours reserved", unit="h", digits=4, better="lower", in_sweeps="CPU-h",
        of=lambda run, measurement: cost.cpu_hours(run, measurement.context),
        meaning="reserved CPUs × hours from start to result; Ray's head and submitter count as Ray's",
    ),
    Measure(
        name="idleRayCpuHours", title="CPU hours that idle Ray pods reserved meanwhile", unit="h", digits=4,
        better="lower", otherwise="no Ray pods run beside this arm",
        of=lambda run, measurement: cost.idle_ray_cpu_hours(run, measurement.context),
        meaning="on a cluster, of Ray's pods while this arm ran; in no arm's cpuHours",
    ),
    Measure(
        name="cost", title="Cost of a run", digits=4, better="lower", otherwise=NO_PRICE,
        of=lambda run, measurement: cost.cost(run, measurement.context),
        meaning="cpuHours × priceCpuHour + reserved GiB × hours × priceGibHour, in the currency of the prices",
    ),
)  # fmt: skip


def measures_of(workload: str, unit: str = "") -> tuple[Measure, ...]:
    """Return the measures of an arm with this workload, in display order: the common ones, and its own scores.

    `unit`: the unit of work, if not the workload's.
    """
    trained = named(workload)
    every = (*PACE, _throughput(trained, unit or trained.unit), *CLOCKS, *map(_of_score, trained.scores), *MORE)
    return tuple(each for each in every if each.only(trained))


def ratios_of(workload: str) -> tuple[Ratio, ...]:
    """Return the ratios between arms with this workload, in display order."""
    return tuple(each for each in RATIOS if each.only(named(workload)))


def _main_score(run: Run, measurement: Measurement) -> float | None:
    scores = measurement.workload.scores
    return run.result.scores.get(scores[0].name) if scores else None


def _epoch(run: Run, _: Measurement) -> float | None:
    """Return the seconds of an epoch, which has the same rows in all arms, even if their steps have not."""
    return epoch_seconds(run.result)


def _whole(run: Run, measurement: Measurement) -> float | None:
    """Return the whole clock; if runs stopped at different epochs, at as many as every run trained."""
    return clock_of(run.result).at(measurement.epochs_trained[0])


def _cost(run: Run, measurement: Measurement) -> float | None:
    return cost.cost(run, measurement.context)


RATIOS = (
    Ratio(
        name="speedup", title="Speedup", above="baseline", below="ray", of=_epoch, in_changes=True,
        in_sweeps="speedup", meaning="baseline / ray, steady state",
        detail="seconds of optimizer steps after warm-up, in the same repeat",
    ),
    Ratio(
        name="wideSpeedup", title="Speedup over all CPUs", above="wide", below="ray", of=_epoch,
        meaning="wide / ray, steady state",
        detail="one process with the CPUs of all workers",
    ),
    Ratio(
        name="endToEndSpeedup", title="End-to-end speedup", above="baseline", below="ray", of=_whole,
        because="seconds.wall", in_changes=True, in_sweeps="end to end", meaning="baseline / ray, start to result",
        detail="from the start of the process or container to its result; if runs stopped early, over the epochs "
        "that all trained",
    ),
    Ratio(
        name="endToEndWideSpeedup", title="End-to-end speedup over all CPUs", above="wide", below="ray", of=_whole,
        because="seconds.wall", meaning="wide / ray, start to result",
        detail="one process with the CPUs of all workers",
    ),
    Ratio(
        name="efficiency", title="Efficiency", above="baseline", below="ray", of=_epoch, per_worker=True, unit="",
        words=None, in_sweeps="efficiency", meaning="speedup / workers",
        detail="the baseline has the machine's turbo to itself, the workers share it",
    ),
    Ratio(
        name="rayOverhead", title="Ray overhead", above="ray", below="native", of=_epoch, words=("faster", "slower"),
        in_changes=True, meaning="ray / native, steady state",
        detail="the framework's own distribution with the same workers; 1.0: Ray costs nothing",
    ),
    Ratio(
        name="accuracyGap", title="Accuracy gap", above="baseline", below="ray", kind="difference", unit=" points",
        factor=100, of=_main_score, only=_has_scores, because="scores.testAccuracy", words=None,
        claims=get_args(Claim),
        in_changes=True, meaning="baseline - ray test accuracy",
        detail="in percentage points; positive: Ray is worse",
    ),
    Ratio(
        name="timeToTargetSpeedup", title="Speedup to the target", above="baseline", below="ray", of=_to_target,
        only=_reports_metrics, claims=("same work", "same result"),
        otherwise=NO_TARGET, meaning="baseline / ray, start to the target",
        detail="of a script with metricTarget: until it first reported a metric as good as that",
    ),
    Ratio(
        name="metricGap", title="Metric gap", above="baseline", below="ray", kind="difference", unit="", of=_metric,
        only=_reports_metrics, claims=get_args(Claim),
        otherwise=NO_METRIC, words=None, meaning="baseline - ray last metric",
        detail="of a script with the key `metric`",
    ),
    *(
        Ratio(
            name=name, title=title, above="ray", below=below, of=lambda run, _: run.result.amount.per_second,
            words=None, only=_reports_metrics, claims=("same script",), because="amount.perSecond",
            meaning=f"ray / {below}, rows a second of the timed steps",
            detail="of a script, if it is not known whether the arms did the same work",
        )
        for name, title, below in (
            ("throughputRatio", "Throughput", "baseline"),
            ("wideThroughputRatio", "Throughput over all CPUs", "wide"),
        )
    ),
    Ratio(
        name="costRatio", title="Cost ratio", above="ray", below="baseline", of=_cost, otherwise=NO_PRICE,
        words=("cheaper", "dearer"), meaning="ray / baseline cost of a run",
        detail="where prices are set",
    ),
)  # fmt: skip
"""Between arms, by name; in the order in which they are shown."""


def measure(name: str, workload: str = WORKLOADS[0]) -> Measure:
    """Return the measure of this name. Raises KeyError if there is none."""
    return {each.name: each for each in measures_of(workload)}[name]


def ratio(name: str) -> Ratio:
    """Return the ratio of this name. Raises KeyError if there is none."""
    return {each.name: each for each in RATIOS}[name]
