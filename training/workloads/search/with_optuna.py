"""Searches with Optuna, as its documentation has them: in one process, and in several that share a journal file.

Sources: https://optuna.readthedocs.io/en/stable/tutorial/10_key_features/004_distributed.html and
https://optuna.readthedocs.io/en/stable/tutorial/20_recipes/009_ask_and_tell.html
"""

import subprocess
import sys
import time
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from training.workloads.search import told, trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space

JOURNAL = "optuna.journal"
"""File of the study that several processes share, in the run's folder."""
STUDY = "search"
POLL_SECONDS = 0.05
GRACE_SECONDS = 15.0
"""Time for the other processes to end their trials, where one has failed."""


class MemberError(RuntimeError):
    """A process of the search that failed."""


def search_alone(plan: Plan) -> None:
    """Make all trials in this process, one after another."""
    study = _study(plan, None, 0)
    _enqueue(study, plan)
    _work(study, plan)


def search_by_processes(plan: Plan, path: Path) -> None:
    """Make all trials in as many processes as there are slots; `path`: the plan's. Raises MemberError."""
    storage = _journal(plan)
    _enqueue(_study(plan, storage, 0), plan)
    command = [sys.executable, "-m", "training.workloads.search.driver", str(path), "--member"]
    members = [subprocess.Popen([*command, str(number)]) for number in range(plan.slots)]
    try:
        while None in (codes := [member.poll() for member in members]) and not any(codes):
            time.sleep(POLL_SECONDS)
    finally:
        _end(members)
    codes = [member.returncode for member in members]
    if any(codes):
        number = next(number for number, code in enumerate(codes) if code)
        raise MemberError(f"process {number} of the search ended with code {codes[number]}; its output is above")


def search_as_member(plan: Plan, member: int) -> None:
    """Make trials of the shared study until none is left."""
    _work(_study(plan, _journal(plan), member), plan)


def _end(members: list[subprocess.Popen[bytes]]) -> None:
    if any(member.returncode for member in members):
        for member in members:
            if member.poll() is None:
                member.terminate()
    for member in members:
        try:
            member.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            member.kill()
            member.wait()


def _journal(plan: Plan) -> BaseStorage:
    return JournalStorage(JournalFileBackend(str(Path(plan.folder) / JOURNAL)))


def _study(plan: Plan, storage: BaseStorage | None, member: int) -> optuna.Study:
    """Return the study of the run. The samplers of several processes have seeds of their own: with one they would
    all begin with the same configurations."""
    recipe = plan.settings
    sampler = optuna.samplers.TPESampler(seed=recipe.seed + member) if recipe.search_algorithm == "tpe" else None
    return optuna.create_study(
        study_name=STUDY,
        storage=storage,
        direction="maximize" if recipe.metric_mode == "max" else "minimize",
        sampler=sampler or optuna.samplers.RandomSampler(seed=recipe.seed + member),
        pruner=_pruner(recipe),
        load_if_exists=storage is not None,
    )


def _pruner(recipe: SearchRecipe) -> optuna.pruners.BasePruner:
    if recipe.search_scheduler == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=recipe.search_grace, reduction_factor=recipe.search_reduction
        )
    return optuna.pruners.NopPruner()


def _enqueue(study: optuna.Study, plan: Plan) -> None:
    """Give the study its configurations, in order, where they are drawn before."""
    for configuration in plan.configurations or []:
        study.enqueue_trial(configuration)


def _work(study: optuna.Study, plan: Plan) -> None:
    """Make trials until the study has as many as are wanted."""
    recipe = plan.settings
    distributions = Space.parse(recipe.search_space).distributions()
    decides = recipe.search_scheduler == "asha"
    while (of_study := study.ask(distributions)).number < recipe.search_trials:

        def goes_on(report: int, value: float, of_study: optuna.Trial = of_study) -> bool:
            of_study.report(value, step=report)
            return not of_study.should_prune()

        record = trial.run_trial(plan, of_study.number, of_study.params, goes_on if decides else None)
        told.tell(plan, record)
        if record.state == "finished":
            study.tell(of_study, record.metric)
        else:
            study.tell(of_study, state=TrialState.PRUNED if record.state == "stopped" else TrialState.FAIL)
    study.tell(of_study, state=TrialState.FAIL)  # one too many, which nobody makes
