"""A search over the arguments of a user's own script, as a workload. Standard library only."""

from collections.abc import Mapping
from typing import Any

from training.contract.workload import Installed, Role, Workload
from training.workloads.script import resolve
from training.workloads.script import workload as script
from training.workloads.search import same_work
from training.workloads.search.detail import SearchDetail
from training.workloads.search.recipe import SearchRecipe, of_trial
from training.workloads.search.space import Space

OPTUNA = {"optuna": "optuna>=5,<6", "grpc": "grpcio", "google.protobuf": "protobuf"}
"""Modules of Optuna's searches with the packages that have the modules; Optuna's processes in pods meet by gRPC."""
ROLES: dict[str, Role] = {"native": "alternative"}
"""Role of `native`: processes that share a study are what one would use instead of Ray, which has no Optuna in it."""
TITLES = {
    "baseline": "Optuna in one process on {cpus}",
    "wide": "Optuna in one process on {cpus}",
    "native": "Optuna in {processes}",
    "ray": "Ray Tune with {trials} at a time",
}
ENTRIES = {
    "trainSeconds": ("All trials", "from the first start to the last end"),
    "secondsPerEpoch": ("All trials, by their number", "trainSeconds / trials"),
    "startupSeconds": ("Start-up", "start of the process or container to the start of the first trial"),
    "wallSecondsPerEpoch": ("A trial more, end to end", "what it adds to wallSeconds"),
    "metric": ("Best metric", "of all that finished, by the last value of `metric`"),
    "secondsToTarget": (
        "Time to the target",
        "start of the run until a trial finished with a metric as good as `metricTarget`",
    ),
    "epochsCompleted": ("Trials", "made, whatever became of them"),
    "peakMemoryBytes": ("Peak memory of a trial", "of the largest trial"),
    "meanCpus": (
        "CPUs in use of a trial while it trains",
        "CPU seconds a second from first to last step, mean over the slots",
    ),
    "speedup": ("Speedup", "baseline / ray, all trials"),
    "wideSpeedup": ("Speedup over all CPUs", "wide / ray, all trials"),
    "rayOverhead": ("Ray overhead", "ray / native, all trials"),
    "throughputRatio": ("Throughput", "ray / baseline, trials/s"),
    "wideThroughputRatio": ("Throughput over all CPUs", "ray / wide, trials/s"),
    "nativeThroughputRatio": ("Throughput over native", "ray / native, trials/s"),
}
"""Titles and meanings of measures and ratios."""
LACKS = (
    "firstBatchSeconds", "dataWaitSeconds", "dataGain", "warmupSeconds", "evaluationSeconds", "reportSeconds",
    "trialsPerSecond", "stepSecondsMean", "stepSecondsP50", "stepSecondsP95", "stepSecondsMax",
)  # fmt: skip
"""Measures of steps, which each trial has, but not the search as a whole."""
CHECKS = {
    "replicasAsAsked": "As many trials ran at a time as were asked for",
    "threadsAsAsked": "Every trial computed with as many threads as it has CPUs, as counted in its process",
    "cpusAsAsked": "Every arm's trials computed on its CPUs, with room for each, and on the same in every repeat",
    "sameWork": "Every arm made the same trials",
    "hashesEqual": "Code, versions and data are the same in every run",
    "versionsEqual": "Every trial had the same versions installed",
    "platformsEqual": "Every trial had the same system, machine and C library",
    "environmentEqual": "The same variables steered the framework in every trial",
}


def words(recipe: Mapping[str, Any]) -> str:
    """Return a description of the search, such as `search over train.py --epochs 4 --lr {lr}`."""
    return f"search over {script.words(recipe)}"


def shown(recipe: SearchRecipe, arm: str, image: Installed = None) -> str:
    """Return the command of a trial in an arm, for a review before anything is run."""
    return resolve.shown(*of_trial(recipe, arm), image)


def modules(recipe: SearchRecipe) -> Mapping[str, str]:
    """Return the modules that a user's own image has to have, which the script's start and the search import."""
    return {**resolve.modules(recipe), **OPTUNA}


WORKLOAD = Workload(
    name="search",
    framework="Optuna",
    recipe=SearchRecipe,
    launcher="training.workloads.search.launch",
    detail=SearchDetail,
    unit="trials",
    words=words,
    scores=(),
    searches=True,
    roles=ROLES,
    titles=TITLES,
    passed="trial",
    passing="Ray's search",
    passes_key="searchTrials",
    most_passes=lambda recipe: Space.parse(recipe.search_space).count,
    longer="A search of more trials",
    replica="slot",
    entries=ENTRIES,
    lacks=LACKS,
    checks=CHECKS,
    packages=("optuna",),
    binds_ranks=False,
    files=resolve.files,
    by_path=script.WORKLOAD.by_path,
    inputs=resolve.inputs,
    modules=modules,
    command=shown,
    warm_up=resolve.warm_up,
    target=script.target,
    work_checks=(),
    same_work=same_work.of_results,
)
