"""The catalogue: every number of an arm and every ratio between arms, once. Pure.

Tables, pages, comments, the stack's outputs and the docs are made from these entries; to add a number is to add one.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from compare import run_numbers
from compare.entries import Measure, Ratio
from compare.measurement import NO_PRICES, Context, Measurement, best_score
from compare.run_numbers import Number
from compare.schema import Claim
from compare.search import NO_SEARCH, NOTHING_STOPPED, STOPPING, TRIALS
from compare.value import Value
from training.contract.arms import NATIVE
from training.contract.cpu_use import NOTICEABLE_CPUS
from training.contract.recipe import WORKLOADS
from training.contract.result import MACHINE, TRAINING_WAIT
from training.contract.workload import ON_GPUS, Score, Workload, named

Entry = TypeVar("Entry", Measure, Ratio)

NO_PRICE = "no price is set: priceCpuHour, priceGibHour"
NO_METRIC = "no metric is named, or it was not reported"
NO_RAY_DATA = "dataArguments is not set"
NO_BATCHES = "batches are seen of PyTorch's DataLoader and of Ray Data"
NO_TARGET = "no metricTarget is set, or not every run reached it"
NOT_ASKED = (NO_PRICE, NO_METRIC, NO_TARGET, NO_SEARCH, NOTHING_STOPPED)
"""Reasons why a number is missing if no setting asked for it."""
NO_CLUSTER = "no Ray cluster exists before this arm's runs start"
WORKERS_ARE_KEPT = "nobody asked for workers before the run: they were there, or Ray asked for them in its start-up"
NO_QUEUE = "runs wait in no queue"


def _has_scores(trained: Workload) -> bool:
    """Return whether the workload has scores of its own. Others report metrics, of which a setting names one."""
    return bool(trained.scores)


def _reports_metrics(trained: Workload) -> bool:
    return not trained.scores


def _has_native_alternative(trained: Workload) -> bool:
    """Return whether the arm `native` is an alternative to Ray with this workload."""
    return trained.roles.get(NATIVE.name, NATIVE.usual_role) == "alternative"


def _has_prices(context: Context) -> bool:
    """Return whether a price is set."""
    return context.prices != NO_PRICES


def _names_metric(context: Context) -> bool:
    """Return whether a setting names a metric of the script."""
    return named(context.recipe.workload).target(context.recipe) is not None


def _has_target(context: Context) -> bool:
    """Return whether a setting says what the metric has to reach."""
    target = named(context.recipe.workload).target(context.recipe)
    return target is not None and target.value is not None


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
        meaning="the timed steps of all epochs",
    ),
    Measure(
        name="secondsPerEpoch", title="Steps of an epoch", unit="s", better="lower", because="seconds.train",
        of=lambda run, _: run_numbers.epoch_seconds(run.result), meaning="mean timed step × steps an epoch",
    ),
)  # fmt: skip
CLOCKS = (
    Measure(
        name="startupSeconds", title="Start-up", unit="s", digits=1, better="lower", column="start-up s",
        in_changes=True, of=lambda run, _: run.result.seconds.startup,
        meaning="start of the process or container to the first optimizer step",
    ),
    Measure(
        name="firstBatchSeconds", title="First batch", unit="s", digits=1, better="lower", only=_reports_metrics,
        otherwise=NO_BATCHES, of=lambda run, _: run.result.first_batch_seconds,
        meaning="start of the script until the last rank had its first batch",
    ),
    Measure(
        name="dataWaitSeconds", title="Waiting for batches", unit="s", digits=1, better="lower", only=_reports_metrics,
        otherwise=NO_BATCHES, of=lambda run, _: run.result.data_wait_seconds,
        meaning="from asking for an iterator or a batch until it is there; of the rank that waited longest",
    ),
    Measure(
        name="warmupSeconds", title="Warm-up steps", unit="s", better="lower",
        of=lambda run, _: run.result.seconds.warmup, meaning="they train but are not timed",
    ),
    Measure(
        name="evaluationSeconds", title="Evaluation", unit="s", better="lower",
        of=lambda run, _: run.result.seconds.evaluation,
        meaning="validation after each epoch, and the test at the end",
    ),
    Measure(
        name="reportSeconds", title="Reports to Ray", unit="s", better="lower", on_page=False,
        because="seconds.report", of=lambda run, _: run.result.seconds.report,
        meaning="in ray.train.report; null for arms without it",
    ),
    Measure(
        name="checkpointSeconds", title="Checkpoints", unit="s", better="lower", only=_has_scores,
        because="seconds.checkpoint", of=lambda run, _: run.result.seconds.checkpoint,
        meaning="writing them and keeping them in storage, between epochs; null without `checkpointEpochs`",
    ),
    Measure(
        name="wallSeconds", title="End to end", unit="s", digits=1, better="lower", column="end-to-end s",
        in_changes=True, of=lambda run, _: run_numbers.whole_seconds(run.result),
        meaning="start of the process or container to the result, without our own probes",
    ),
    Measure(
        name="wallSecondsPerEpoch", title="An epoch more, end to end", unit="s", better="lower",
        otherwise=run_numbers.ONE_EPOCH, of=lambda run, _: run_numbers.clock_of(run.result).per_epoch,
        meaning="what it adds to wallSeconds: its steps, validation, reports and checkpoints",
    ),
    Measure(
        name="rayClusterStartSeconds", title="Start of Ray's cluster, once", unit="s", digits=0, better="lower",
        otherwise=NO_CLUSTER,
        of=lambda run, _: run.result.ray_head.cluster_start_seconds if run.result.ray_head else None,
        meaning="from the RayCluster's creation until all its pods were ready, images fetched included; in no other "
        "number, because updates keep the cluster",
    ),
    Measure(
        name="scaleUpSeconds", title="Start of Ray's workers, every run", unit="s", digits=1, better="lower",
        otherwise=WORKERS_ARE_KEPT, of=lambda run, _: run.result.seconds.scale_up,
        meaning="with `rayWorkers per-run`: from the request for the workers until the last one's raylet was alive, "
        "images fetched included; part of startupSeconds and wallSeconds",
    ),
    Measure(
        name="queuedSeconds", title="Wait in the queue", unit="s", digits=0, better="lower",
        otherwise=NO_QUEUE, of=lambda run, _: run.result.seconds.queued,
        meaning="with `queue`: from the creation of a run's Job until Kueue let it start; in no other number",
    ),
    Measure(
        name="probeSeconds", title="Our own probes", unit="s", on_page=False,
        of=lambda run, _: run.result.seconds.probe,
        meaning="comparing the workers; not in wallSeconds",
    ),
    Measure(
        name="timeToAccuracySeconds", title="Time to accuracy", unit="s", better="lower", because="seconds.train",
        only=_has_scores,
        in_sweeps="s to acc.",
        of=run_numbers.score_seconds,
        meaning="training seconds until the validation accuracy that every compared run reached",
    ),
)  # fmt: skip
MORE = (
    Measure(
        name="metric", title="Metric", digits=4, only=_reports_metrics, column="metric", otherwise=NO_METRIC,
        of=run_numbers.metric,
        meaning="last value of what the key `metric` names",
    ),
    Measure(
        name="secondsToTarget", title="Time to the target", unit="s", digits=1, better="lower", only=_reports_metrics,
        otherwise=NO_TARGET, of=run_numbers.to_target,
        meaning="start of the script until it first reported a metric as good as `metricTarget`",
    ),
    Measure(
        name="bestValidationAccuracy", title="Best validation accuracy", unit="%", factor=100, better="higher",
        only=_has_scores,
        on_page=False, of=lambda run, _: best_score(run.result), meaning="of the best epoch",
    ),
    Measure(
        name="epochsCompleted", title="Epochs", digits=0, on_page=False,
        of=lambda run, _: run.result.epochs_completed, meaning="epochs trained",
    ),
    Measure(
        name="stepSecondsMean", title="Step, mean", unit="ms", digits=1, factor=1000, better="lower", on_page=False,
        because="steps.seconds", of=run_numbers.of_steps(lambda steps: steps.mean), meaning="timed steps of rank 0",
    ),
    Measure(
        name="stepSecondsP50", title="Step, median", unit="ms", digits=1, factor=1000, better="lower",
        because="steps.seconds", of=run_numbers.of_steps(lambda steps: steps.p50),
        meaning="likewise",
    ),
    Measure(
        name="stepSecondsP95", title="Step, 95th percentile", unit="ms", digits=1, factor=1000, better="lower",
        because="steps.seconds", of=run_numbers.of_steps(lambda steps: steps.p95),
        meaning="likewise",
    ),
    Measure(
        name="stepSecondsMax", title="Step, slowest", unit="ms", digits=1, factor=1000, better="lower", on_page=False,
        because="steps.seconds", of=run_numbers.of_steps(lambda steps: steps.max),
        meaning="likewise",
    ),
    Measure(
        name="peakMemoryBytes", title="Peak memory of a worker", unit="MiB", digits=0, factor=1 / 2**20,
        better="lower", column="peak MiB", of=run_numbers.of_workers(lambda worker: worker.peak_memory_bytes, max),
        meaning="of the largest worker",
    ),
    Measure(
        name="meanCpus", title="CPUs in use of a worker while it trains",
        of=run_numbers.of_workers(lambda w: w.mean_cpus, statistics.fmean),
        meaning="CPU seconds a second of the timed steps, mean over the workers",
    ),
    Measure(
        name="throttledSeconds", title="Held back by the quota", unit="s", digits=1, better="lower",
        of=run_numbers.of_workers(lambda worker: worker.throttled_seconds, max),
        meaning="by the cgroup, of the most throttled worker",
    ),
    Measure(
        name="otherCpus", title="CPUs that other programs took over the whole run", better="lower",
        because=MACHINE, least=NOTICEABLE_CPUS, of=lambda run, _: run_numbers.other_cpus(run),
        meaning="of this machine; the run's own processes and Pulumi are left out",
    ),
    Measure(
        name="waitedShare", title="Threads waited for a CPU, whoever had it", unit="%", digits=1, factor=100,
        better="lower", because=TRAINING_WAIT, of=lambda run, _: run_numbers.waited_share(run),
        meaning="seconds that all threads of the ranks waited for a CPU / that they had one, over the training",
    ),
    Measure(
        name="cpuHours", title="CPU hours reserved", unit="h", digits=4, better="lower", in_sweeps="CPU-h",
        output_if=lambda _: True,
        of=lambda run, measurement: run_numbers.cpu_hours(run, measurement.context),
        meaning="reserved CPUs × hours from start to result; Ray's head and submitter count as Ray's",
    ),
    Measure(
        name="idleRayCpuHours", title="CPU hours that idle Ray pods reserved meanwhile", unit="h", digits=4,
        better="lower", otherwise="no Ray pods run beside this arm",
        of=lambda run, measurement: run_numbers.idle_ray_cpu_hours(run, measurement.context),
        meaning="on a cluster, while this arm ran; in no arm's cpuHours",
    ),
    Measure(
        name="cost", title="Cost of a run", digits=4, better="lower", otherwise=NO_PRICE,
        output_if=_has_prices,
        of=lambda run, measurement: run_numbers.cost(run, measurement.context),
        meaning="cpuHours × priceCpuHour + reserved GiB × hours × priceGibHour + GPUs × hours × priceGpuHour",
    ),
)  # fmt: skip
OUTPUTS = tuple(each for each in (*PACE, *CLOCKS, *TRIALS, *MORE) if each.output_if)
"""Measures of the Ray arm that are outputs of the stack. The measures of the other arms are only in the comparison."""


def measures_of(workload: str, unit: str = "") -> tuple[Measure, ...]:
    """Return the measures of an arm with this workload, its own scores included, in display order. `unit`: the unit of
    work, if it is not that of the workload."""
    trained = named(workload)
    pace = (*PACE, _throughput(trained, unit or trained.unit))
    return _of_workload((*pace, *CLOCKS, *map(_of_score, trained.scores), *TRIALS, *MORE), trained)


def ratios_of(workload: str, gpus: int = 0) -> tuple[Ratio, ...]:
    """Return the ratios between arms with this workload, in display order. `gpus`: GPUs of each worker."""
    trained = named(workload)
    return _of_workload(RATIOS, replace(trained, roles={**ON_GPUS, **trained.roles}) if gpus else trained)


def _of_workload(entries: Sequence[Entry], trained: Workload) -> tuple[Entry, ...]:
    """Return the entries that the workload has, with the titles and meanings that the workload gives them."""
    had = [each for each in entries if each.name not in trained.lacks and (each.only is None or each.only(trained))]
    words = [trained.entries.get(each.name, (each.title, each.meaning)) for each in had]
    return tuple(replace(each, title=title, meaning=of) for each, (title, of) in zip(had, words, strict=True))


RATIOS = (
    Ratio(
        name="speedup", title="Speedup", above="baseline", below="ray", of=run_numbers.epoch, in_changes=True,
        in_sweeps="speedup", meaning="baseline / ray, steps only",
        detail="optimizer steps after warm-up",
    ),
    Ratio(
        name="wideSpeedup", title="Speedup over all CPUs", above="wide", below="ray", of=run_numbers.epoch,
        meaning="wide / ray, steps only",
    ),
    Ratio(
        name="endToEndSpeedup", title="End-to-end speedup", above="baseline", below="ray", of=run_numbers.whole,
        because="seconds.wall", in_changes=True, in_sweeps="end to end", meaning="baseline / ray, end to end",
        detail="from the start of the process or container to its result; if runs stopped early, over the epochs "
        "that all trained",
    ),
    Ratio(
        name="endToEndWideSpeedup", title="End-to-end speedup over all CPUs", above="wide", below="ray",
        of=run_numbers.whole, because="seconds.wall", meaning="wide / ray, end to end",
    ),
    Ratio(
        name="endToEndNativeSpeedup", title="End-to-end speedup over native", above="native", below="ray",
        of=run_numbers.whole, because="seconds.wall", only=_has_native_alternative, meaning="native / ray, end to end",
        detail="of a search, and with GPUs, where `native` is an alternative",
    ),
    Ratio(
        name="efficiency", title="Efficiency", above="baseline", below="ray", per_worker=True, unit="",
        of=run_numbers.epoch, words=None, in_sweeps="efficiency", meaning="speedup / workers",
        detail="workers share the machine's turbo, the baseline does not",
    ),
    Ratio(
        name="rayOverhead", title="Ray overhead", above="ray", below="native", words=("faster", "slower"),
        of=run_numbers.epoch, in_changes=True, meaning="ray / native, steps only",
        detail="at 1.0 Ray costs nothing",
    ),
    Ratio(
        name="accuracyGap", title="Accuracy gap", above="baseline", below="ray", kind="difference", unit=" points",
        factor=100, of=run_numbers.main_score, only=_has_scores, because="scores.testAccuracy", words=None,
        claims=get_args(Claim),
        in_changes=True, meaning="baseline - ray, accuracy",
        detail="of the test set; positive: Ray is worse",
    ),
    Ratio(
        name="timeToTargetSpeedup", title="Speedup to the target", above="baseline", below="ray",
        of=run_numbers.to_target, only=_reports_metrics, claims=("same work", "same result"),
        otherwise=NO_TARGET, wanted_by=_has_target, meaning="baseline / ray, to target",
        detail="until a script first reported a metric as good as `metricTarget`",
    ),
    Ratio(
        name="metricGap", title="Metric gap", above="baseline", below="ray", kind="difference", unit="",
        of=run_numbers.metric, only=_reports_metrics, claims=get_args(Claim),
        otherwise=NO_METRIC, words=None, wanted_by=_names_metric, meaning="baseline - ray, metric",
        detail="of a script, the last value of `metric`",
    ),
    *(
        Ratio(
            name=name, title=title, above="ray", below=below, of=lambda run, _: run.result.amount.per_second,
            words=None, only=only, claims=("same script",), because="amount.perSecond",
            meaning=f"ray / {below}, rows/s",
            detail="with claim C alone, over the timed steps",
        )
        for name, title, below, only in (
            ("throughputRatio", "Throughput", "baseline", _reports_metrics),
            ("wideThroughputRatio", "Throughput over all CPUs", "wide", _reports_metrics),
            ("nativeThroughputRatio", "Throughput over native", "native", _has_native_alternative),
        )
    ),
    *STOPPING,
    Ratio(
        name="dataGain", title="Gain of Ray Data", above="ray", below="raydata", only=_reports_metrics,
        of=lambda run, _: run_numbers.whole_seconds(run.result), because="seconds.wall", claims=get_args(Claim),
        otherwise=NO_RAY_DATA, meaning="ray / raydata, end to end",
        detail="of a script with `dataArguments`; no part of the verdict",
    ),
    Ratio(
        name="costRatio", title="Cost ratio", above="ray", below="baseline", otherwise=NO_PRICE,
        of=lambda run, measurement: run_numbers.cost(run, measurement.context),
        words=("cheaper", "dearer"), wanted_by=_has_prices, meaning="ray / baseline, cost",
        detail="with prices",
    ),
)  # fmt: skip
"""The ratios between arms, in the order in which they are shown."""


@dataclass(frozen=True)
class Numbers:
    """The values of all measures and ratios of the catalogue in a measurement."""

    of_arms: Mapping[str, Mapping[str, Sequence[Value]]]
    """The values of each measure for each run of an arm, by arm and measure."""
    ratios: Mapping[str, Sequence[Value]]
    """The values of each ratio in each repeat, by ratio."""


def numbers_of(measurement: Measurement) -> Numbers:
    """Return all numbers of the catalogue. Each of a run is read once; ratios are taken within a repeat."""
    recipe = measurement.recipe
    of_arms, ratios = measures_of(recipe.workload), ratios_of(recipe.workload, recipe.worker_gpus)
    readers: dict[str, Number] = {each.name: each.of for each in of_arms} | {each.name: each.of for each in ratios}
    numbers = {
        name: {arm: [read(run, measurement) for run in runs] for arm, runs in measurement.by_arm.items()}
        for name, read in readers.items()
    }
    return Numbers(
        of_arms={
            arm: {each.name: each.values(numbers[each.name][arm], measurement.by_arm[arm]) for each in of_arms}
            for arm in (*measurement.arms, *measurement.variants)
        },
        ratios={each.name: each.values(numbers[each.name], measurement) for each in ratios},
    )


def measure(name: str, workload: str = WORKLOADS[0]) -> Measure:
    """Return the measure of this name. Raises KeyError if there is none."""
    return {each.name: each for each in measures_of(workload)}[name]


def ratio(name: str) -> Ratio:
    """Return the ratio of this name. Raises KeyError if there is none."""
    return {each.name: each for each in RATIOS}[name]
