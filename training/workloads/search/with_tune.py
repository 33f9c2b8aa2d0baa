"""Searches with Ray Tune, as its documentation has them: a class `Trainable` whose trials are placed by Ray.

A function as trainable left processes behind that a trial had started: https://docs.ray.io/en/latest/tune/api/trainable.html
has `cleanup` for them.
"""

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from training.launch import entry
from training.launch.environment import SECRET
from training.launch.ray import driver
from training.workloads.search import detail, ray_store, site, told, trial, with_population
from training.workloads.search.detail import Trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.shared_ray import DRIVER_CPUS, SharedRay
from training.workloads.search.space import Space
from training.workloads.search.trial import TrialFailedError

DRAWN = "trial"
"""Key of what Tune gives a trial, where the configurations were drawn before: number and configuration."""


class TuneError(RuntimeError):
    """A search that Tune and the records of the trials tell differently: its result would be a guess."""


class ScriptTrial(tune.Trainable):  # type: ignore[misc]
    """One trial of the user's script, in a process of its own, or in several that this Ray places."""

    def setup(self, config: dict[str, Any], plan: Plan, packed: bytes) -> None:
        """Start the script with a configuration; `packed`: its package, where it is not in this pod yet."""
        recipe, drawn = plan.settings, config.get(DRAWN)
        self._plan, self._is_told = plan, False
        if plan.package:
            site.begin(Path(plan.folder), packed)
        number, configuration = drawn or (_next_number(plan), config)
        self._metric = recipe.metric
        joined = _shared() if recipe.trial_workers > 1 else None
        decides = recipe.search_scheduler == "asha"
        self._running = trial.start(plan, number, configuration, decides=decides, within=joined)

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
            ended = ray_store.put(self._plan, record.number) if self._plan.store else None
            told.tell(self._plan, record, ended)
            self._is_told = True
        return record


def search(plan: Plan, flags: Sequence[str]) -> None:
    """Make all trials. `flags`: those of the arm's entry point. Raises TuneError."""
    request = entry.parse(plan.arm, __doc__, [*flags])
    shares = plan.settings.trial_workers > 1
    if shares:  # Ray shows the variables of a job, so its workers inherit these from it
        os.environ.update(json.loads(os.environ.get(SECRET, "{}")))
    folder, is_population = request.result.parent, plan.settings.is_population
    own = driver.start_ray(request, plan.arm, more_cpus=DRIVER_CPUS * plan.slots if shares else 0)
    try:
        with _own_store(plan):
            results = (with_population.tuner if is_population else tuner)(plan, Path(plan.folder)).fit()
            if plan.store:
                ray_store.fetch(plan, plan.settings.search_trials - results.num_errors)
    finally:
        driver.shut_down(own)
    _refuse_other_failures(plan, results.num_errors)
    if is_population:
        with_population.check(plan, folder)


@contextmanager
def _own_store(plan: Plan) -> Iterator[None]:
    """Clear the store of what killed searches left in it, and at the end, however that comes, of what this one has."""
    if not plan.store:
        yield
        return
    ray_store.clear()
    try:
        yield
    finally:
        ray_store.clear()


def _refuse_other_failures(plan: Plan, by_tune: int) -> None:
    """Refuse a search in which Tune counts other failures than there are in the records. Raises TuneError.

    Only a trial that failed by itself just before Tune stopped it has failed and is none of those that Tune counts.
    """
    records = map(detail.read, map(plan.trial_folder, range(plan.settings.search_trials)))
    failed = sum(record is None or record.state == "failed" for record in records)
    if failed < by_tune or (failed > by_tune and plan.settings.search_scheduler != "asha"):
        raise TuneError(f"{failed} trials failed, and for Tune {by_tune}: what it says is above")


def tuner(plan: Plan, folder: Path) -> tune.Tuner:
    """The search, with its files in a folder of the run."""
    recipe = plan.settings
    return tune.Tuner(
        tune.with_resources(
            tune.with_parameters(ScriptTrial, plan=plan, packed=_packed(plan)),
            {"cpu": DRIVER_CPUS if recipe.trial_workers > 1 else plan.threads},
        ),
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


def _shared() -> SharedRay:
    return SharedRay(address=ray.get_runtime_context().gcs_address, token_path=os.environ["RAY_AUTH_TOKEN_PATH"])


def _packed(plan: Plan) -> bytes:
    return Path(plan.package).read_bytes() if plan.package else b""


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
    """Return the number of the next trial: whoever makes its folder, or its key, has it. Tune does not number what an
    algorithm chooses."""
    for number in itertools.count():
        if plan.store and not ray_store.take(plan, number):
            continue
        try:
            plan.trial_folder(number).mkdir(parents=True)
        except FileExistsError:
            continue
        return number
    raise AssertionError
