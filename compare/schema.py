"""The comparison as it stands in the output `comparison`: arms and ratios as data, by name. Types, no arithmetic.

In JSON the keys are camelCase. The tables in docs/outputs.md are generated from here and from `compare.measures`.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from compare.measurement import CompareError
from training.contract.arms import ARMS, RAYSTART
from training.contract.codec import ResultError, decode, encode
from training.contract.recipe import canonical
from training.contract.result import Provenance, RayCluster
from training.contract.workload import named
from training.machine.command_line import again

SCHEMA_VERSION = 3

Answer = Literal["Worth it", "Worth it from", "Not worth it here", "Not decided", "Not comparable"]
"""The first words of the verdict."""

Claim = Literal["same work", "same result", "same script", "it finished"]
"""How much may be said of the arms, from what was observed of them: the claims A to D of the docs."""

Ending = Literal["decided", "nothing to decide", "most repeats", "goes on"]
"""Why a measurement with `repeats auto` ends, or that it goes on."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A spread sums up a value over the repeats."""

    median: Annotated[float, "of the repeats"]
    low: Annotated[float, "lowest repeat"]
    high: Annotated[float, "highest repeat"]
    n: Annotated[int, "repeats that it was measured in"]
    values: Annotated[list[float], "of each, in their order"]


@dataclass(frozen=True, kw_only=True)
class Estimate(Spread):
    """An estimate is a ratio over the repeats, with how certain it is."""

    lower: Annotated[
        float | None,
        "lower end of the 95 % t interval of the mean logarithm (98.75 % with `repeats auto`; with three alternatives, "
        "as of a search, 96.67 %, with `auto` 99.17 %); null: one repeat",
    ]
    upper: Annotated[float | None, "its upper end"]
    decision: Annotated[
        str,
        "`faster` or `slower` (the interval excludes 1), `no measurable difference` (it lies within ±5 %), "
        "`not decided`; empty where 1 means nothing",
    ]
    repeats_to_decide: Annotated[
        int | None, "repeats that would probably decide it; null: decided, or over 100 (`repeats auto`: over 12)"
    ]


@dataclass(frozen=True, kw_only=True)
class RunLink:
    """A link names the file of a run that was compared."""

    name: Annotated[str, "for example `ray-2`"]
    repeat: Annotated[int, "repeat, from 1"]
    seed: Annotated[int, "the recipe's seed + repeat - 1"]
    path: Annotated[str, "its `result.json`, relative to the project"]
    sha256: Annotated[str, "of that file"]
    started_at: Annotated[str, "UTC, ISO 8601"]
    wall_seconds: Annotated[float, "start of the process or container to the result"]


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Step times say where the time of a step on rank 0 goes, in seconds, as medians over the repeats."""

    parts: Annotated[
        dict[str, float],
        "seconds by [part](own-script.md#where-a-steps-time-goes); a part that cannot be told from others is absent",
    ]
    waiting_seconds: Annotated[list[float], "`waiting` of each rank; empty where the exchange is not known"]
    slowest_rank: Annotated[
        int | None,
        "the rank whose own work takes longest, with 95 % confidence over the repeats; null: none, or one repeat",
    ]
    slower_seconds: Annotated[float | None, "by how much; null: no slowest rank"]
    cpu_wait_seconds: Annotated[
        float | None, "time that threads of rank 0 waited for a CPU, added up; null: not counted"
    ]


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """A summary is of one arm; the files that `runs` names have the rest."""

    role: Annotated[str, "reference, alternative, control, subject or variant"]
    title: Annotated[str, "what ran, in words: `one process on 2 CPUs`"]
    measures: Annotated[dict[str, Spread | None], "by name, as in the tables above"]
    startup_phases: Annotated[dict[str, float], "startupSeconds by phase, medians"]
    world_size: Annotated[int | None, "replicas that the framework saw; null: no step was seen"]
    compute_threads: Annotated[int | None, "intra-op threads of a worker; null: not counted"]
    reserved_cpus: Annotated[float, "CPUs that a run holds; on a cluster Ray's include head and submitter"]
    steps_per_epoch: Annotated[int, "optimizer steps an epoch"]
    work: Annotated[dict[str, float], "sizes of model and data, by name"]
    provenance: Annotated[Provenance, "of the arm's first run: hashes, versions, host"]
    ray: Annotated[RayCluster | None, "what Ray said of its cluster"]
    runs: Annotated[list[RunLink], "the runs compared"]
    step_parts: Annotated[StepTimes | None, "where a step's time goes; null: not clocked"] = None

    def median(self, measure: str) -> float | None:
        """Return the median of the measure of this name; None if it was not measured."""
        spread = self.measures.get(measure)
        return spread.median if spread else None


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """From this epoch on Ray takes less time, from start to result, than an alternative; null: none up to 10,000."""

    probably: Annotated[int | None, "by the centre of the interval of the ratio of the clocks"]
    possibly: Annotated[int | None, "by its upper end"]
    surely: Annotated[int | None, "by its lower end, as the verdict decides"]


@dataclass(frozen=True, kw_only=True)
class LongerRun:
    """This is what longer training might change of *Not worth it here*."""

    passes: Annotated[
        int,
        "the first number of epochs or trials (steps of 2 %, up to 10,000) at which these runs do not exclude that Ray "
        "gains 5 % against each alternative",
    ]
    probably: Annotated[
        int | None, "the first at which it probably gains that, by the centre of each interval; null: none up to 10,000"
    ] = None
    seconds: Annotated[
        float | None, "what a measurement of `probably` takes, with all arms and repeats; null: none, or not known"
    ]
    not_advised: Annotated[
        str,
        "why that is not advised: there is none, no setting allows it, or it takes longer than `budgetMinutes`, else "
        "than a day; empty: it is advised",
    ]


@dataclass(frozen=True, kw_only=True)
class TrialBreakEven:
    """From trials of this length (of `baseline`, in seconds) on Ray takes less time than an alternative with as many
    trials; null: no length up to a day."""

    probably: Annotated[float | None, "by the centre of the interval of the ratio of the clocks"]
    possibly: Annotated[float | None, "by its upper end"]
    surely: Annotated[float | None, "by its lower end, as the verdict decides"]


@dataclass(frozen=True, kw_only=True)
class Search:
    """This is what a search came to."""

    trials: Annotated[dict[str, int], "trials of all runs that are compared: `finished`, `stopped`, `failed`"]
    best_config: Annotated[str | None, "of the best finished trial, as JSON; null: none finished"]
    best_metric: Annotated[float | None, "its metric"]
    break_even: Annotated[dict[str, TrialBreakEven | None], "by the arm that Ray is compared with"]
    break_even_trial_seconds: Annotated[
        float | None,
        "seconds of a trial from which on Ray takes less time than each alternative, with 95 % confidence",
    ]


@dataclass(frozen=True, kw_only=True)
class ProjectedPoint:
    """A point estimates a larger number of workers; 90 % of the points of published curves lie in such a band."""

    workers: Annotated[int, "how many"]
    speedup: Annotated[float | None, "baseline / this, steady state; null beyond twice the most that were measured"]
    lower: Annotated[float, "lower end of its band"]
    upper: Annotated[float, "upper end of its band"]
    cost_lower: Annotated[
        float, "what a run reserves × seconds of a step / the same of the most workers measured: at `upper`"
    ]
    cost_upper: Annotated[float, "the same at `lower`"]


@dataclass(frozen=True, kw_only=True)
class NextMeasurement:
    """This measurement would make the band narrower."""

    settings: Annotated[dict[str, str], "keys and values to set"]
    minutes: Annotated[float, "it takes, by the longest repeat of this measurement with its pauses"]
    narrows_by: Annotated[float, "upper / lower end with the most workers now, / that afterwards"]


@dataclass(frozen=True, kw_only=True)
class Projection:
    """A projection estimates up to four times as many workers as were measured; beyond twice it has bands alone."""

    measured: Annotated[list[int], "numbers of workers that it is fitted to, ascending"]
    speedup: Annotated[float, "baseline / Ray with the most of them, steady state"]
    exponent: Annotated[float, "there n times as many workers were n^exponent times as fast"]
    points: Annotated[
        list[ProjectedPoint],
        "ascending; they end before the first whose band holds both *faster than now* and *half as fast*",
    ]
    knee_from: Annotated[
        int | None,
        "the knee, from where twice the workers are less than 1.1 times as fast: the least number of workers that it "
        "may be at; null: beyond the last point",
    ]
    knee_to: Annotated[int | None, "the largest; null: beyond the last point"]
    next: Annotated[
        list[NextMeasurement],
        "the one that narrows the most a minute first; what this machine, the keys' rules and the budget allow",
    ]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """A point sums up Ray's runs with one number of workers."""

    workers: Annotated[int, "how many"]
    step_seconds: Annotated[Spread | None, "mean timed step"]
    wall_seconds: Annotated[Spread, "start to result, without our own probes"]
    cpu_hours: Annotated[Spread, "reserved CPUs × hours; on a cluster idle worker pods are in none"]
    cost: Annotated[Spread | None, "of a run; null where no price is set"]
    speedup: Annotated[Estimate | None, "baseline / this, steady state"]
    gain: Annotated[Estimate | None, "number before / this, start to result; null for the first"]
    cost_ratio: Annotated[Estimate | None, "this / number before, of `cost`, or without prices of `cpuHours`"]
    runs: Annotated[list[RunLink], "the runs compared"]


@dataclass(frozen=True, kw_only=True)
class WorkersCurve:
    """A curve has a point for each number of the settings `workersCurve` and `workers`."""

    points: Annotated[list[CurvePoint], "ascending"]
    stops_paying_at: Annotated[int | None, "the first that is not, with 95 % confidence, faster than the one before"]
    costs_more_from: Annotated[
        int | None,
        "the first beyond which more workers cost more than they save, with 95 % confidence",
    ]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound is the least time that Ray could take for a script that nothing distributes; Ray did not train it."""

    workers: Annotated[int, "N: number of Ray's workers"]
    trainer: Annotated[str, "the framework of Ray's trainer; `tasks`: Ray has none for it, and tasks were started"]
    start_seconds: Annotated[
        Spread,
        "Ray's start with workers that import the framework and do nothing; S is the lowest less 20 %",
    ]
    shared_seconds: Annotated[
        Spread, "all that `baseline` does after its imports, as if all could be split; T is the lowest"
    ]
    least_seconds: Annotated[float, "S + T / N, from start to result: no run with Ray takes less"]
    at_most: Annotated[
        dict[str, Estimate],
        "by arm, its time / leastSeconds: how many times as fast Ray could be at most",
    ]
    open_from_epochs: Annotated[
        int | None,
        "the fewest epochs at which Ray could be worth it; null: none up to 10,000, one repeat, or unknown epochs",
    ]
    open_from_workers: Annotated[
        int | None,
        "the fewest workers at which Ray could be faster than `baseline`; null: none up to 1,000, or one repeat",
    ]
    repeats_to_decide: Annotated[
        int | None,
        "repeats, in all, that would probably show that even this loses; null: it is shown, not suggested, or over 100",
    ]
    write: Annotated[str, "what to write to distribute it"]


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A script that trains in one process was run as ranks; `write` says how to do that without this project."""

    arms: Annotated[dict[str, str], "what ranks did, by arm"]
    proof: Annotated[str, "what was proved of them; each outcome, if repeats differ"]
    write: Annotated[str, "what to write to distribute the script so"]
    port: Annotated[str, "the smallest port, as a diff that was run; empty: none, and `write` says why"]


@dataclass(frozen=True)
class SpotCourse:
    """These are the parts of an undisturbed run, as medians over the repeats."""

    start_seconds: Annotated[
        float, "start to first step, and what the first steps take beyond others; every restart pays it again"
    ]
    epochs: Annotated[int, "epochs trained; 1 where epochs were not clocked: all that follows the start"]
    epoch_seconds: Annotated[float, "an epoch, without a checkpoint"]
    checkpoint_seconds: Annotated[float | None, "a checkpoint; null: none was made"]
    end_seconds: Annotated[float, "what follows the last epoch"]


@dataclass(frozen=True, kw_only=True)
class SpotArm:
    """This is expected of an arm on spot capacity, with checkpoints as often as costs the least."""

    machines: Annotated[int, "machines, the loss of any of which stops the run; on a cluster Ray's head is one"]
    course: Annotated[SpotCourse, "what it is computed from"]
    checkpoint_epochs: Annotated[int, "best `checkpointEpochs`; 0: none, and an interrupted run starts from scratch"]
    seconds: Annotated[
        float | None, "expected, start to result, without waits for another machine; null: over 1,000 times as long"
    ]
    on_demand_seconds: Annotated[float, "without interruption and without checkpoints"]
    cost_ratio: Annotated[
        Estimate | None,
        "expected cost on spot / cost on demand, by the parts of each run; null: over 1,000 times as long for some run",
    ]
    cost: Annotated[float | None, "expected cost on spot; null where no price is set"]
    stops_paying_at: Annotated[float, "interruptions per hour of one worker from which on spot costs more"]


@dataclass(frozen=True, kw_only=True)
class Spot:
    """This is what interruptible capacity would cost, computed from runs that nothing interrupted."""

    factor: Annotated[float, "`priceSpotFactor`"]
    interruptions_per_hour: Annotated[float, "of one worker, `interruptionsPerHour`"]
    arms: Annotated[dict[str, SpotArm], "by name; an arm of which no step was seen is absent"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The output `comparison` has everything as one JSON object."""

    schema_version: Annotated[int, "of this schema"]
    answer: Annotated[str, "how the verdict begins: `Worth it`, `Worth it from 12 epochs on`, `Not worth it here`, …"]
    verdict: Annotated[str, "the answer, why, how certain, and what qualifies it"]
    claim: Annotated[
        str | None,
        "how much may be said: `same work`, `same result`, `same script`, `it finished`; null: not comparable, or no "
        "distributed run",
    ]
    arms: Annotated[dict[str, ArmSummary], "the arms that were measured, by name"]
    absent: Annotated[dict[str, str], "the arms that were not, and why"]
    ratios: Annotated[dict[str, Estimate | None], "by name, as in the tables above"]
    break_even: Annotated[dict[str, BreakEven | None], "by the arm that Ray is compared with"]
    break_even_epochs: Annotated[
        int | None,
        "epochs (up to 10,000) from which on Ray takes less time than each alternative, with 95 % confidence",
    ]
    idle_ray_cpus: Annotated[
        Spread | None,
        "CPUs that Ray's pods (the head's, if `rayWorkers` is not `kept`) took while other arms ran; `n`: gaps between "
        "Ray runs",
    ]
    workload: Annotated[str, "what was trained, by name"]
    recipe: Annotated[dict[str, Any], "its settings, of repeat 1"]
    settings: Annotated[dict[str, str], "settings that are not their defaults, as `--set` takes them; no secret ones"]
    checks: Annotated[dict[str, bool | None], "of fairness; null: not verified, false: the arms are not comparable"]
    reasons: Annotated[
        dict[str, str],
        "why a value is null, a check false or a repeat dropped; `verdict.…`: the verdict's details",
    ]
    projection: Annotated[Projection | None, "speedup with more workers, as bands"]
    workers_curve: Annotated[WorkersCurve | None, "several numbers of workers"]
    search: Annotated[Search | None, "what a search came to"] = None
    longer: Annotated[LongerRun | None, "what might change *Not worth it here*; null: another answer, or nothing"] = (
        None
    )
    passes: Annotated[str, "over what arms are compared: `4 epochs`, or `the whole run` of a script"] = ""
    bound: Annotated[Bound | None, "the least that Ray could take; null: Ray trained"] = None
    distribution: Annotated[
        Distribution | None,
        "how a script that trains in one process was distributed",
    ] = None
    spot: Annotated[Spot | None, "cost on spot capacity"] = None
    measurement: Annotated[str, "the hash that all runs share"] = ""
    auto: Annotated[
        str,
        "why `repeats auto` ended: `decided`, `nothing to decide`, `most repeats`; or `goes on`; empty: a fixed number",
    ] = ""

    def to_json(self) -> str:
        """Return the comparison as canonical JSON, without NaN. Equal comparisons give equal texts."""
        return canonical(encode(self))

    @classmethod
    def from_json(cls, text: str) -> "Comparison":
        """Return the comparison that `text` holds as JSON. Raise CompareError that says what is wrong with it."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise CompareError(f"no comparison, but {text.strip()[:40]!r}: {error}") from None
        version = data.get("schemaVersion") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise CompareError(
                f"the comparison's schemaVersion is {version!r} and this program reads {SCHEMA_VERSION}: "
                f"run `{again('up')}` to compare again"
            )
        try:
            return cast("Comparison", decode(cls, data, "the comparison"))
        except ResultError as error:
            raise CompareError(f"{error}: run `{again('up')}` to compare again") from None

    @property
    def unit(self) -> str:
        """Return the plural name of what runs process, such as `images`: of the settings, else of the workload."""
        return named(self.workload).unit_in(self.recipe)

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of each worker."""
        return int(self.recipe.get("workerGpus", 0))

    @property
    def passed(self) -> str:
        """Return the word for what longer runs have more of: `epoch`, or `trial`."""
        return named(self.workload).passed

    def shown_arms(self) -> list[str]:
        """Return the arms that were measured, in the order in which they are shown."""
        return [name for name in ARMS if name in self.arms]

    @property
    def has_equal_epochs(self) -> bool:
        """Return whether all runs trained the same number of epochs. If not, the time of a whole run covers more epochs
        than are compared."""
        arms = [arm for name, arm in self.arms.items() if name != RAYSTART.name]
        trained = [arm.measures.get("epochsCompleted") for arm in arms]
        return len({epochs for spread in trained if spread for epochs in spread.values}) <= 1

    @property
    def repeats(self) -> int:
        """Return the number of repeats that were compared."""
        return max((len(arm.runs) for arm in self.arms.values()), default=0)
