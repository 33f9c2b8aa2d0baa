"""The words of a search: what its arms, its measures and its checks are called where they are something else than those
of one training. Standard library only."""

from training.contract.workload import Role

ROLES: dict[str, Role] = {"native": "alternative"}
"""Processes that share a study are what one would use instead: Ray contains nothing of them."""
TITLES = {
    "baseline": "Optuna in one process on {cpus}",
    "wide": "Optuna in one process on {cpus}",
    "native": "Optuna in {processes}",
    "ray": "Ray Tune with {trials} at a time",
}
ENTRIES = {
    "trainSeconds": ("All trials", "from the start of the first trial to the end of the last"),
    "secondsPerEpoch": ("All trials, by their number", "trainSeconds / trials: of all slots together"),
    "startupSeconds": ("Start-up", "start of the process or container to the start of the first trial"),
    "wallSecondsPerEpoch": ("A trial more, end to end", "what a trial more adds to wallSeconds; the rest is paid once"),
    "metric": ("Best metric", "of all trials that finished, by the last value of what the key `metric` names"),
    "secondsToTarget": (
        "Time to the target",
        "start of the run until a trial had finished with a metric as good as `metricTarget`",
    ),
    "epochsCompleted": ("Trials", "trials that were made, whatever became of them"),
    "peakMemoryBytes": ("Peak memory of a trial", "of the arm's largest trial"),
    "meanCpus": ("CPUs in use of a trial", "CPU seconds a second of the trials of a slot, mean over the slots"),
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
"""Measures of steps: a trial has them, and a search none of its own."""
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
