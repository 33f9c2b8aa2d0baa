"""Searches with Ray Tune, as its documentation has them: a class `Trainable` whose trials are placed by Ray.

A function as trainable left processes behind that a trial had started: https://docs.ray.io/en/latest/tune/api/trainable.html
has `cleanup` for them. Records of trials are in Ray's own key-value store, which every process of a cluster reaches:
pods share no folder.
"""

import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from training.launch import entry
from training.launch.environment import SECRET
from training.launch.ray import driver
from training.workloads.search import brought, detail, site, trial, with_population
from training.workloads.search.detail import Trial
from training.workloads.search.plan import STORES, Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space
from training.workloads.search.trial import TrialFailedError
from training.workloads.search.trial_environment import DRIVER_CPUS, SharedRay

DRAWN = "trial"
"""Key of what Tune gives a trial, its number and its configuration, if the configurations were drawn in advance."""
WAIT_SECONDS = 60.0
"""Seconds for stopped trials to end, longer than the time that they have until SIGKILL."""
POLL_SECONDS = 0.05


class TuneError(RuntimeError):
    """Tune and the records of the trials contradict each other, so the result of the search would be a guess."""


class ScriptTrial(tune.Trainable):  # type: ignore[misc]
    """A trial of the user's script, in a process of its own, or in several processes that this Ray places."""

    def setup(self, config: dict[str, Any], plan: Plan, packed: bytes) -> None:
        """Start the script with a configuration; `packed` is the script's package, if this pod does not have it yet."""
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
        """Return the next report, or the last metric when the trial has ended. Raise TrialFailedError if it failed."""
        report = self._running.next_report()
        if report is not None:
            return {self._metric: report.value}
        record = self._end()
        if record.state == "failed":
            raise TrialFailedError(record.why)
        return {self._metric: record.metric, tune.result.DONE: True}

    def cleanup(self) -> None:
        """End the script, for example because Tune has stopped the trial."""
        self._end()

    def _end(self) -> Trial:
        record = self._running.end()
        if not self._is_told:
            ended = _bring_trial(self._plan, record.number) if self._plan.store else None
            trial.tell(self._plan, record, ended)
            self._is_told = True
        return record


def search(plan: Plan, flags: Sequence[str]) -> None:
    """Make all trials with the flags of the arm's entry point. Raise TuneError if Tune and records disagree."""
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
                _fetch_trials(plan, plan.settings.search_trials - results.num_errors)
    finally:
        driver.shut_down(own)
    _refuse_other_failures(plan, results.num_errors)
    if is_population:
        with_population.check(plan, folder)


@contextmanager
def _own_store(plan: Plan) -> Iterator[None]:
    """Clear Ray's store of what killed searches left, and at the end, in any case, of what this one stored."""
    if not plan.store:
        yield
        return
    _clear_store()
    try:
        yield
    finally:
        _clear_store()


def _refuse_other_failures(plan: Plan, by_tune: int) -> None:
    """Raise TuneError if Tune counts other failures than the records of the trials have. Only with asha may the records
    have more: Tune does not count a trial that failed by itself just before Tune stopped it."""
    records = map(detail.read, map(plan.trial_folder, range(plan.settings.search_trials)))
    failed = sum(record is None or record.state == "failed" for record in records)
    if failed < by_tune or (failed > by_tune and plan.settings.search_scheduler != "asha"):
        raise TuneError(f"{failed} trials failed, and for Tune {by_tune}: what it says is above")


def tuner(plan: Plan, folder: Path) -> tune.Tuner:
    """Return the tuner that runs the search, with its files in a folder of the run."""
    recipe = plan.settings
    return tune.Tuner(
        tune.with_resources(
            tune.with_parameters(ScriptTrial, plan=plan, packed=_packed(plan)),
            {"cpu": DRIVER_CPUS if recipe.trial_workers > 1 else plan.threads},
        ),
        param_space={DRAWN: tune.grid_search(list(enumerate(plan.configurations)))} if plan.configurations else None,
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
    """Return the number of the next trial, which belongs to the process that makes the trial's folder, or its key,
    first. Tune itself does not number trials that an algorithm chooses."""
    for number in itertools.count():
        if plan.store and not _take_number(plan, number):
            continue
        try:
            plan.trial_folder(number).mkdir(parents=True)
        except FileExistsError:
            continue
        return number
    raise AssertionError


def _take_number(plan: Plan, number: int) -> bool:
    """Take the number of a trial; return False if another trial has taken it."""
    return not _internal_kv_put(f"{plan.store}/number/{number}", b"taken", overwrite=False)


def _bring_trial(plan: Plan, number: int) -> int:
    """Store the record of a trial that ended in this pod in Ray's store; return the number of trials stored there."""
    trial = brought.of_trial(plan, number)
    assert trial  # noqa: S101 (its record is written)
    _internal_kv_put(f"{plan.store}/trial/{number}", trial.text())
    return len(_internal_kv_list(f"{plan.store}/trial/"))


def _fetch_trials(plan: Plan, least: int) -> None:
    """Write the records that all workers have stored into the driver's folder of the run. `least` is the number of
    trials that did not fail for Tune, all of which store a record; a trial that Tune has stopped ends later, so the
    records are waited for."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(_internal_kv_list(f"{plan.store}/trial/")) < least and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for key in _internal_kv_list(f"{plan.store}/trial/"):
        brought.parse(json.loads(_internal_kv_get(key))).write(plan)


def _clear_store() -> None:
    """Delete the keys of this search in Ray's store, and those of earlier searches whose driver was killed; a Ray that
    outlives searches has one at a time."""
    _internal_kv_del(STORES, del_by_prefix=True)
