"""Searches with Optuna, as its documentation has them: in one process, in several that share a journal file, and in
pods, of which the first has that file and serves it to the others.

Sources: https://optuna.readthedocs.io/en/stable/tutorial/10_key_features/004_distributed.html and
https://optuna.readthedocs.io/en/stable/tutorial/20_recipes/009_ask_and_tell.html

The documentation of `run_grpc_proxy_server` in Optuna 5.0 still warns of a journal behind it, because of
https://github.com/optuna/optuna/issues/6084; the journal of that version has a fix for it. A database, which it asks
for instead, has none where it is SQLite: members of a study that was enqueued ended with UpdateFinishedTrialError.
"""

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import optuna
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, run_grpc_proxy_server
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from training.workloads.search import trial
from training.workloads.search.plan import Plan
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.space import Space

JOURNAL = "optuna.journal"
"""Name of the file, in the run's folder, with the study that several processes share."""
STUDY = "search"
POLL_SECONDS = 0.05
JOIN_SECONDS = 300.0
"""Seconds for the first pod to serve the study; the names of all pods resolve by then."""
TRIES, TRY_SECONDS = 10, 1.0
"""How often a pod tries to tell the first pod that it has ended, and seconds between two tries. Without that message
the first pod waits for ever."""
EVERY_ADDRESS = "[::]"
"""The address of all interfaces, those of IPv4, too: gRPC's own wildcard."""
GRACE_SECONDS = 15.0
"""Seconds for the other processes to end their trials after one process has failed."""


class MemberError(RuntimeError):
    """A process of the search failed."""


def search_alone(plan: Plan) -> None:
    """Make all trials in this process, one after another."""
    study = _study(plan, None, 0)
    _enqueue(study, plan)
    _work(study, plan)


def search_by_processes(plan: Plan, path: Path) -> None:
    """Make all trials in as many processes as there are slots (trials at a time). Raise MemberError if a process fails.
    `path` is the path of the plan's file."""
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
    """Make trials of the study that the processes share, until no trial is left."""
    _work(_study(plan, _journal(plan), member), plan)


def search_in_pods(plan: Plan) -> None:
    """Make trials as one of several pods; the first pod ends when all pods have ended. Raise MemberError if the study
    can't be served or reached."""
    if plan.member:
        _join(plan)
        return
    storage = _journal(plan)
    study = _study(plan, storage, 0)
    _enqueue(study, plan)
    port = int(plan.meeting.rpartition(":")[2])
    server = threading.Thread(
        target=run_grpc_proxy_server, args=(storage,), kwargs={"host": EVERY_ADDRESS, "port": port}, daemon=True
    )
    server.start()
    _work(study, plan)
    while len(study.user_attrs) < plan.slots - 1:
        if not server.is_alive():
            raise MemberError(f"the study could not be served at port {port}; the reason is above")
        time.sleep(POLL_SECONDS)


def _join(plan: Plan) -> None:
    """Make trials of the study that the first pod serves, until no trial is left; then tell the first pod so."""
    host, _, port = plan.meeting.rpartition(":")
    storage = GrpcStorageProxy(host=host, port=int(port))
    try:
        storage.wait_server_ready(JOIN_SECONDS)
    except ConnectionError:
        raise MemberError(f"the first process of the search, at {plan.meeting}, did not answer") from None
    study = _study(plan, storage, plan.member)
    _work(study, plan)
    tell_first(study, plan.member)


def tell_first(study: optuna.Study, member: int) -> None:
    """Tell the first pod, which waits for this message, that this pod has made its last trial. If nobody receives the
    message, the first pod has already ended, as it does once all pods have told it."""
    for _ in range(TRIES):
        with suppress(grpc.RpcError):  # lost on its way, or taken and not answered
            study.set_user_attr(f"member {member}", "has ended")
            return
        time.sleep(TRY_SECONDS)


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
    """Return the study of the run. Samplers of several processes have different seeds; with the same seed, all would
    begin with the same configurations."""
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
    if recipe.search_scheduler != "none":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=recipe.search_grace, reduction_factor=recipe.search_reduction
        )
    return optuna.pruners.NopPruner()


def _enqueue(study: optuna.Study, plan: Plan) -> None:
    """Add the configurations to the study, in order, if they were drawn in advance."""
    for configuration in plan.configurations or []:
        study.enqueue_trial(configuration)


def _work(study: optuna.Study, plan: Plan) -> None:
    """Make trials until the study has as many trials as are wanted."""
    recipe = plan.settings
    distributions = Space.parse(recipe.search_space).distributions()
    decides = recipe.search_scheduler != "none"
    while _is_open(study, recipe):
        of_study = study.ask(distributions)
        if not recipe.is_population and of_study.number >= recipe.search_trials:  # another process took the last
            study.tell(of_study, state=TrialState.FAIL)
            return

        def goes_on(report: int, value: float, of_study: optuna.Trial = of_study) -> bool:
            of_study.report(value, step=report)
            return not of_study.should_prune() and _is_open(study, recipe)

        record = trial.run_trial(plan, of_study.number, of_study.params, goes_on if decides else None)
        if record.state == "finished":
            study.tell(of_study, record.metric)
        else:
            study.tell(of_study, state=TrialState.PRUNED if record.state == "stopped" else TrialState.FAIL)
        trial.tell(plan, record, _ended(study, recipe) if plan.meeting else None)


def _ended(study: optuna.Study, recipe: SearchRecipe) -> int:
    """Return how many trials have ended, in all pods."""
    trials = study.get_trials(deepcopy=False)[: recipe.search_trials]
    return sum(each.state.is_finished() for each in trials)


def _is_open(study: optuna.Study, recipe: SearchRecipe) -> bool:
    """Return whether the search goes on; against a population, until as many epochs are trained as the population may
    train. A trial that failed counts as having trained all its epochs, as in a population, where no trial takes its
    place."""
    if not recipe.is_population:
        return True
    trials = study.get_trials(deepcopy=False)
    whole = (TrialState.COMPLETE, TrialState.FAIL)
    trained = (recipe.epochs if each.state in whole else each.last_step or 0 for each in trials)
    return sum(trained) < recipe.search_trials * recipe.epochs
