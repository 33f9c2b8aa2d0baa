"""The recipe of a search over the arguments of a user's own script. Standard library only."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from training.contract.arms import ARMS
from training.contract.recipe import WORKLOADS, setting
from training.contract.rules import Rule, choice, text, whole
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.search.space import ALLOWED, Space, SpaceError, canonical_space

ALGORITHMS = ("random", "tpe")
SCHEDULERS = ("none", "asha", "pbt")
CHECKPOINT = "checkpoint"
"""Placeholder for the folder of a population's trial with the checkpoint to continue from, and for the next one."""
LEAST_TRIALS, MOST_TRIALS = 2, 1000


@dataclass(frozen=True, kw_only=True)
class SearchRecipe(ScriptRecipe):
    """The settings that change a run of a search: those of the script, which each trial runs once, and the search's
    own. The metric decides here, because an algorithm chooses by it, and trials are stopped by it."""

    without: ClassVar[tuple[str, ...]] = (
        "measure_steps", "artifacts", "unit", "worker_gpus", "data_arguments", "data_cpus",
    )  # fmt: skip
    workload: str = setting("search", choice(WORKLOADS), "what is trained")
    unit: str = ""
    worker_gpus: int = 0
    metric: str = setting(
        "",
        text("a name"),
        "number that the script reports, by which its trials are judged",
        derived="none",
        example="val_accuracy",
    )
    metric_mode: str = setting("max", choice(["max", "min"]), "whether more of the metric is better, or less")
    search_space: str = setting(
        "",
        Rule(canonical_space, ALLOWED),
        "what is searched; each name stands in scriptArguments, as {lr}",
        derived="none",
        example='{"lr": {"log": [1e-5, 0.1]}}',
    )
    search_trials: int = setting(16, whole(LEAST_TRIALS, MOST_TRIALS), "trials of a run, each with other values")
    search_algorithm: Literal["random", "tpe"] = setting(
        "random",
        choice(ALGORITHMS),
        "random: values are drawn before, the same for every arm; tpe: each arm chooses by its results",
    )
    search_scheduler: Literal["none", "asha", "pbt"] = setting(
        "none",
        choice(SCHEDULERS),
        "none: trials train to their end; asha: those that fall behind are stopped, by Optuna's rule and by Ray's; "
        "pbt: Ray's population based training, against Optuna's rule",
    )
    search_grace: int = setting(
        1, whole(1, 9_999), "with asha: epochs that every trial trains; with pbt: epochs of a segment"
    )
    search_reduction: int = setting(
        3, whole(2, 100), "with asha, and without Ray with pbt: one of so many trials goes on at each round"
    )
    trial_workers: int = setting(1, whole(1, 256), "workers of each trial, each with workerCpus CPUs")
    metric_pattern: str = setting(
        "",
        text("a regular expression with one group"),
        "finds the metric in a printed line",
        derived="none",
        example=r"val_accuracy=(\S+)",
    )

    @property
    def processes_each(self) -> int:  # type: ignore[override]
        """Return the number of processes of one trial."""
        return self.trial_workers

    @property
    def one_process(self) -> bool:  # type: ignore[override]
        """Return whether a trial is one process."""
        return self.trial_workers == 1

    @property
    def is_population(self) -> bool:  # type: ignore[override]
        """Return whether Ray's search is population based training."""
        return self.search_scheduler == "pbt"

    @property
    def segments(self) -> int:
        """Return the number of segments of a trial in population based training; the last segment may be shorter."""
        return -(-self.epochs // self.search_grace)

    def placeholders(self) -> tuple[str, ...]:
        """Return the placeholders that each trial replaces: the search space's names; none if it can't be read."""
        own = (CHECKPOINT,) if self.is_population else ()
        try:
            return (*Space.parse(self.search_space).ranges, *own)
        except SpaceError:
            return own


def of_trial(recipe: SearchRecipe, arm: str) -> tuple[SearchRecipe, str]:
    """Return the recipe of the script, and the script's arm, with which a trial is started in an arm of a search. A
    trial of several workers runs the script with Ray in the search's arm `ray`, and with the framework's own
    distribution in other arms."""
    own = ARMS[arm]
    if recipe.trial_workers == 1:
        return recipe, "wide" if own.all_cpus and recipe.workers > 1 else "baseline"
    cpus = recipe.worker_cpus * (recipe.workers if own.all_cpus else 1)
    of_one = replace(recipe, workers=recipe.trial_workers, worker_cpus=cpus)
    return of_one, "ray" if own.start == "ray" else "native"
