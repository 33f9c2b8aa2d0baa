"""What a comparison is made of (runs and their context) and what it is made into (the `comparison` output).

Types only, no arithmetic: `training.comparison` computes. The table in docs/outputs.md is generated from here.
Standard library only.
"""

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

SCHEMA_VERSION = 1

RATIOS = ("speedup", "endToEndSpeedup", "efficiency", "rayOverhead", "accuracyGap")
"""Names of the values that are computed within a repeat; each is a Spread."""


NO_RAY_PODS = "no Ray pods stand beside the other arms"
ONE_RAY_RUN = "it is read between two Ray runs: set repeats 2"
"""Why `idleRayCpus` is null on this machine, and with one repeat: nothing that a reader has to be told."""


class CompareError(ValueError):
    """Runs that must not be compared, or a comparison that cannot be read."""


@dataclass(frozen=True)
class Run:
    """One finished run: `summary` is what `TrainingResult.summary()` gives, camelCase."""

    name: str
    arm: str
    repeat: int
    summary: dict[str, Any]


@dataclass(frozen=True)
class Context:
    """What the runs do not know: how they were asked for.

    `recipe` is the stack's, of repeat 1; `oversubscription` says in words what was oversubscribed, or is None;
    `settings` are the stack's that are not their defaults, as texts.
    """

    recipe: dict[str, Any]
    target: str
    native_arm: bool
    repeats: int
    oversubscription: str | None
    keep_baseline: bool
    settings: dict[str, str]


class Spread(TypedDict):
    """A value over repeats: no standard deviation, because three repeats do not have one worth the name."""

    median: Annotated[float, "median over the repeats"]
    low: Annotated[float, "lowest repeat"]
    high: Annotated[float, "highest repeat"]
    n: Annotated[int, "repeats that it was measured in"]


class RunLink(TypedDict):
    """Where a run that was compared lies."""

    name: Annotated[str, "for example `ray-2`"]
    repeat: Annotated[int, "repeat, from 1"]
    seed: Annotated[int, "the recipe's seed + repeat - 1"]
    path: Annotated[str, "its `result.json`, relative to the project"]
    sha256: Annotated[str, "of that file"]
    startedAt: Annotated[str, "UTC, ISO 8601"]
    wallSeconds: Annotated[float, "start of the process or container to the result"]


class ArmSummary(TypedDict):
    """One arm: medians over the repeats that were compared; `spread` has their range, `runs` leads to everything."""

    trainSeconds: Annotated[float | None, "steady state: the timed steps of all epochs"]
    secondsPerEpoch: Annotated[float | None, "mean timed step × steps an epoch"]
    imagesPerSecond: Annotated[float | None, "timed images / trainSeconds"]
    startupSeconds: Annotated[float | None, "start of the process or container to the first optimizer step"]
    warmupSeconds: Annotated[float | None, "first steps, which train but are not timed"]
    evaluationSeconds: Annotated[float | None, "validation after each epoch, and the test at the end"]
    reportSeconds: Annotated[float | None, "in ray.train.report; null for arms that have none"]
    wallSeconds: Annotated[float | None, "start of the process or container to the result"]
    testAccuracy: Annotated[float | None, "on the test set, used once at the end"]
    testLoss: Annotated[float | None, "on the test set"]
    bestValidationAccuracy: Annotated[float | None, "best epoch"]
    timeToAccuracySeconds: Annotated[
        float | None, "training seconds until the validation accuracy that every compared run reached"
    ]
    epochsCompleted: Annotated[float | None, "epochs trained"]
    stepSecondsMean: Annotated[float | None, "mean timed step of rank 0"]
    stepSecondsP50: Annotated[float | None, "median timed step of rank 0"]
    stepSecondsP95: Annotated[float | None, "95th percentile of rank 0's timed steps"]
    stepSecondsMax: Annotated[float | None, "slowest timed step of rank 0"]
    peakMemoryBytes: Annotated[float | None, "of the arm's largest worker"]
    meanCpus: Annotated[float | None, "CPU seconds a second of a worker, mean over the workers"]
    throttledSeconds: Annotated[float | None, "time that the cgroup held the arm's most throttled worker back"]
    spread: Annotated[dict[str, Spread], "range of each of the values above that was measured"]
    startupPhases: Annotated[dict[str, float], "startupSeconds by phase"]
    worldSize: Annotated[int, "replicas that TensorFlow saw"]
    computeThreads: Annotated[int, "intra-op threads of a worker"]
    parameters: Annotated[int, "of the model"]
    layers: Annotated[int, "of the model"]
    stepsPerEpoch: Annotated[int, "optimizer steps an epoch"]
    trainImages: Annotated[int, "images an epoch"]
    validationImages: Annotated[int, "held out of the training set"]
    testImages: Annotated[int, "images of the test set"]
    provenance: Annotated[dict[str, Any], "what the arm's first run was made with: hashes, versions, host"]
    ray: Annotated[dict[str, Any] | None, "what Ray said of its cluster; null for arms without Ray"]
    runs: Annotated[list[RunLink], "the runs compared"]


class Link(TypedDict):
    """A network in the scaling model, and what the model predicts on it."""

    name: Annotated[str, "`this link` or a nominal Ethernet"]
    measured: Annotated[bool, "true: latency and bandwidth are fitted to the probe; false: assumed, see assumptions"]
    latencySeconds: Annotated[float, "α: seconds a message"]
    bytesPerSecond: Annotated[float, "1 / β"]
    speedup: Annotated[dict[str, float], "predicted speedup by number of workers"]
    bestWorkers: Annotated[int, "fewest workers within 1 % of the highest predicted speedup: more do not pay"]
    bestSpeedup: Annotated[float, "predicted at bestWorkers"]


class Projection(TypedDict):
    """The scaling model of training.projection, fitted to these runs."""

    workers: Annotated[int, "workers of the native arm that it is fitted to"]
    maxWorkers: Annotated[int, "globalBatchSize / 8: strong scaling ends there"]
    baselineStepSeconds: Annotated[float, "measured mean step of one process"]
    nativeStepSeconds: Annotated[float, "measured mean step of the native arm"]
    gradientBytes: Annotated[int, "exchanged a step"]
    allReduceSeconds: Annotated[float, "modelled reduce of the gradients at `workers` on this link"]
    exposedShare: Annotated[float, "fitted: part of the all-reduce that the step waits for (above 1: other costs too)"]
    stragglerSeconds: Annotated[float, "at `workers`: expected wait for the slowest worker"]
    links: Annotated[list[Link], "predictions"]
    assumptions: Annotated[list[str], "what is assumed and not measured"]


class ComparisonData(TypedDict):
    """The `comparison` output: everything, as one JSON object."""

    schemaVersion: Annotated[int, "of this schema"]
    speedup: Annotated[
        Spread | None, "baseline / ray steady-state seconds; per epoch where arms stopped at different epochs"
    ]
    endToEndSpeedup: Annotated[Spread | None, "baseline / ray wall seconds, from process or container start to result"]
    efficiency: Annotated[
        Spread | None, "speedup / workers; the baseline has the machine's turbo to itself, the workers share it"
    ]
    rayOverhead: Annotated[Spread | None, "ray / native steady-state seconds (1.0: none)"]
    accuracyGap: Annotated[Spread | None, "baseline - ray test accuracy in percentage points (positive: Ray is worse)"]
    breakEvenEpochs: Annotated[float | None, "extra start-up of Ray / seconds that it saves an epoch"]
    idleRayCpus: Annotated[
        Spread | None,
        "CPUs that all Ray pods together took while the other arms ran, what ends and starts a Ray run included; "
        "`n` counts the gaps between Ray runs",
    ]
    verdict: Annotated[
        str, "a sentence: faster, slower, no measurable difference, not decided or not comparable, and why"
    ]
    baseline: Annotated[ArmSummary | None, "one process with the CPUs of one worker"]
    native: Annotated[ArmSummary | None, "TensorFlow's own distribution; null when `nativeArm` is off"]
    ray: Annotated[ArmSummary | None, "Ray Train"]
    recipe: Annotated[dict[str, Any], "what the runs trained, of repeat 1"]
    settings: Annotated[dict[str, str], "settings that are not their defaults, as `SET` takes them; no secret ones"]
    checks: Annotated[dict[str, bool | None], "fairness checks; null: not verified, false: the arms are not comparable"]
    reasons: Annotated[dict[str, str], "why a value is null, a check false, a repeat dropped or the verdict qualified"]
    projection: Annotated[Projection | None, "predicted speedup with more workers and on other networks"]
