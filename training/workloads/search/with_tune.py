"""Searches with Ray Tune, as its documentation has them: a class `Trainable` whose trials are placed by Ray.

A function as trainable left processes behind that a trial had started: https://docs.ray.io/en/latest/tune/api/trainable.html
has `cleanup` for them.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from training.launch import entry
from training.launch.ray import driver
from training.workloads.search import detail, told, trial
from training.workloads.search.detail import Trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space

DRAWN = "trial"
"""Key of what Tune gives a trial, where the configurations were drawn before: number and configuration."""


class TrialFailedError(RuntimeError):
    """A trial that failed: Tune counts it, and the search goes on."""


class TuneError(RuntimeError):
    """A search that Tune and the records of the trials tell differently: its result would be a guess."""


class ScriptTrial(tune.Trainable):  # type: ignore[misc]
    """One trial of the user's script, in a process of its own."""

    def setup(self, config: dict[str, Any], plan: Plan) -> None:
        """Start the script with a configuration."""
        recipe, drawn = plan.settings, config.get(DRAWN)
        self._plan, self._is_told = plan, False
        number, configuration = drawn or (_next_number(plan), config)
        self._metric = recipe.metric
        self._running = trial.start(plan, number, configuration, decides=recipe.search_scheduler == "asha")

    def step(self) -> dict[str, Any]:
        """Return the next report of the metric; the last, at the trial's end. Raises TrialFailedError."""
        report = self._running.next_report()
        if report is not None:
            return {self._metric: report.value}
        record = self._end()
        if record.state == "failed":
            raise TrialFailedError(record.why)
        return {self._metric: record.metric, tune.result.DONE: True}

    def cleanup(self) -> None:
        """End the script, where Tune has stopped the trial."""
        self._end()

    def _end(self) -> Trial:
        record = self._running.end()
        if not self._is_told:
            told.tell(self._plan, record)
            self._is_told = True
        return record


def search(plan: Plan, flags: Sequence[str]) -> None:
    """Make all trials. `flags`: those of the arm's entry point. Raises TuneError."""
    request = entry.parse(plan.arm, __doc__, [*flags])
    own = driver.start_ray(request, plan.arm)
    try:
        results = tuner(plan, request.result.parent).fit()
    finally:
        driver.shut_down(own)
    records = map(detail.read, map(plan.trial_folder, range(plan.settings.search_trials)))
    failed = sum(record is None or record.state == "failed" for record in records)
    if results.num_errors != failed:
        raise TuneError(f"{failed} trials failed, and for Tune {results.num_errors}: what it says is above")


def tuner(plan: Plan, folder: Path) -> tune.Tuner:
    """The search, with its files in a folder of the run."""
    recipe = plan.settings
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(ScriptTrial, plan=plan), {"cpu": plan.threads}),
        param_space=_drawn(plan.configurations) if plan.configurations else None,
        tune_config=tune.TuneConfig(
            metric=recipe.metric,
            mode=recipe.metric_mode,
            search_alg=None if plan.configurations else _algorithm(recipe),
            scheduler=_scheduler(recipe),
            num_samples=1 if plan.configurations else recipe.search_trials,
            max_concurrent_trials=plan.slots,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(folder / "ray"),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the script keeps its own
        ),
    )


def _drawn(configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {DRAWN: tune.grid_search(list(enumerate(configurations)))}


def _algorithm(recipe: SearchRecipe) -> Searcher:
    from ray.tune.search.optuna import OptunaSearch

    distributions = Space.parse(recipe.search_space).distributions()
    return OptunaSearch(distributions, metric=recipe.metric, mode=recipe.metric_mode, seed=recipe.seed)


def _scheduler(recipe: SearchRecipe) -> TrialScheduler | None:
    if recipe.search_scheduler != "asha":
        return None
    return ASHAScheduler(
        max_t=recipe.epochs, grace_period=recipe.search_grace, reduction_factor=recipe.search_reduction
    )


def _next_number(plan: Plan) -> int:
    """Return the number of the next trial: whoever makes its folder has it. Tune does not number what an algorithm
    chooses."""
    for number in itertools.count():
        try:
            plan.trial_folder(number).mkdir(parents=True)
        except FileExistsError:
            continue
        return number
    raise AssertionError
