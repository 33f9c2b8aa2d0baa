"""Rounds of `xgboost.train` and `lightgbm.train`, and so of their scikit-learn classes, by a callback after the
script's own.

A round is a step: it goes over all rows of this rank, as many as the library's data set says. Rounds that a script
makes itself by `Booster.update` are not seen.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import guard, own_rank, state
from .loaders import Loader

OF_A_PLACE = (
    "nthread", "n_jobs", "num_threads", "num_thread", "verbosity", "verbose", "device", "machines", "num_machines",
    "local_listen_port", "listen_time_out", "time_out", "tree_learner", "pre_partition",
)  # fmt: skip
"""Parameters in which arms may differ, because they say where and with what the trees are made."""
OF_ROUNDS = (*guard.STEPS, "rows", "rowsPerStep", "input", "rounds", "boosterParameters", guard.METRICS)


@guard.guarded("XGBoost can't be observed")
def observe_xgboost(module: Any) -> None:
    """Add the observer's callback to each call of `train`. `module`: xgboost.training."""
    rounds = _rounds_class(sys.modules["xgboost.callback"].TrainingCallback)
    module.train = _train(module.train, inspect.signature(module.train), rounds)


def _rounds_class(base: Any) -> Any:
    class Rounds(base):  # type: ignore[misc]
        """Counts rounds after the script's own callbacks: one that ends the training is the last that XGBoost calls."""

        def __init__(self, arguments: dict[str, Any]) -> None:
            data = arguments["dtrain"]
            self.params, self.rounds, self.rows = arguments["params"], arguments["num_boost_round"], data.num_row()
            self.columns = data.num_col()

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002 (XGBoost's name)
            """Count a round; return true if it was the last wanted round."""
            return _end_xgboost_round(self, model, evals_log) is True

    return Rounds


@guard.guarded("a round could not be observed", *OF_ROUNDS)
def _end_xgboost_round(rounds: Any, model: Any, evals_log: Any) -> bool:
    def begin() -> None:
        _begin_xgboost(model, rounds.params, rounds.rounds)
        _note_work(rounds.params, rounds.rounds, rounds.columns)

    logs = ((f"{data}-{name}", values[-1]) for data, of in evals_log.items() for name, values in of.items())
    return _round(model, rounds.rows, begin, logs)


@guard.guarded("LightGBM can't be observed")
def observe_lightgbm(module: Any) -> None:
    """Add the observer's callback to each call of `train`. `module`: lightgbm.engine."""
    enough = sys.modules["lightgbm.callback"].EarlyStopException

    def rounds(_: dict[str, Any]) -> Callable[[Any], None]:
        def after_round(env: Any) -> None:
            if _end_lightgbm_round(env):
                raise enough(env.iteration, env.evaluation_result_list or [])

        after_round.order = sys.maxsize  # type: ignore[attr-defined]  # after the script's own
        return after_round

    module.train = _train(module.train, inspect.signature(module.train), rounds)


@guard.guarded("a round could not be observed", *OF_ROUNDS)
def _end_lightgbm_round(env: Any) -> bool:
    data, rounds = env.model.train_set, env.end_iteration - env.begin_iteration

    def begin() -> None:
        _begin_lightgbm(env.model, env.params, rounds)
        _note_work(env.params, rounds, data.num_feature())

    logs = (
        (f"{entry[0]}-{entry[1]}", entry[2]) for entry in env.evaluation_result_list or () if _is_of_all(env, entry[0])
    )
    return _round(env.model, data.num_data(), begin, logs)


def _is_of_all(env: Any, name: str) -> bool:
    """Return whether a metric is computed over all rows of its data set. With a script that was written for one
    process, a rank has only its own rows of the training set, so a metric of that set is not the script's metric."""
    return (
        own_rank.SPREAD not in sys.modules
        or env.params.get("num_machines", 1) == 1
        or name != env.model._train_data_name
    )


@guard.around("a call of `train` can't be observed", *OF_ROUNDS)
def _train(
    signature: inspect.Signature, callback: Callable[[dict[str, Any]], Any], *args: Any, **more: Any
) -> Iterator[tuple[Any, Any]]:
    bound = signature.bind(*args, **more)
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    added = callback({**defaults, **bound.arguments})
    bound.arguments["callbacks"] = [*(bound.arguments.get("callbacks") or ()), added]
    with state.current().with_own_hooks():
        yield bound.args, bound.kwargs


def _round(model: Any, rows: int, begin: Callable[[], None], logs: Iterable[tuple[str, Any]]) -> bool:
    """Count a round of a model over so many rows; return whether it is the last that is wanted."""
    now = state.current()
    with now.hook():
        if not now.step_ends:
            begin()
        seen = now.work.of(model)
        loader = now.loaders.setdefault(id(seen), Loader(None, rows, None))
        loader.deliver(rows)
        now.deliver(loader)
        for name, value in logs:
            now.reports.measured(name, value, "booster")
        seen.step([float(now.model.rate() or 0.0)], len(now.step_ends))
        now.step(seen)
    return now.is_enough()


def _note_work(params: dict[str, Any], rounds: int, columns: int) -> None:
    """Record what decides the trees: all parameters except those that say where and with what the trees are made."""
    work = state.current().work
    parameters = {key: value for key, value in params.items() if key not in OF_A_PLACE and not callable(value)}
    work.booster_parameters = " ".join(f"{key}={value}" for key, value in sorted(parameters.items()))
    work.rounds = rounds
    work.training.enter(columns, "features", "off")


def _begin_xgboost(model: Any, params: dict[str, Any], rounds: int) -> None:
    collective = sys.modules["xgboost.collective"]
    now = state.current()
    now.all_steps = now.all_steps or rounds
    now.framework, now.model.digest = "xgboost", functools.partial(_digest_xgboost, model)
    now.rank, now.world = collective.get_rank(), collective.get_world_size()
    now.threads = _threads(params, "nthread", "n_jobs")
    now.model.rate = lambda: params.get("eta", params.get("learning_rate"))


def _begin_lightgbm(model: Any, params: dict[str, Any], rounds: int) -> None:
    now = state.current()
    now.all_steps = now.all_steps or rounds
    now.framework, now.model.digest = "lightgbm", functools.partial(_digest_lightgbm, model)
    now.world = int(params.get("num_machines", 1)) if model._network else 1
    train, (rank, _) = sys.modules.get("ray.train"), own_rank.of_environment()
    by_ray = now.world > 1 and own_rank.SPREAD not in sys.modules
    now.rank = train.get_context().get_world_rank() if train is not None and by_ray else rank
    now.threads = _threads(params, "num_threads", "num_thread", "nthread", "n_jobs")
    now.model.rate = lambda: params.get("learning_rate", params.get("eta"))


def _threads(params: dict[str, Any], *names: str) -> int | None:
    """Return the number of threads that the script sets, or else OMP_NUM_THREADS; None if neither is set."""
    threads = next((int(params[name]) for name in names if params.get(name)), 0)
    return threads if threads > 0 else int(os.environ.get("OMP_NUM_THREADS") or 0) or None


def _digest_xgboost(model: Any) -> str:
    return hashlib.sha256(model.save_raw()).hexdigest()


def _digest_lightgbm(model: Any) -> str:
    """Return a hash of the trees alone: the parameters after them in the model's text include each rank's port."""
    trees = model.model_to_string(num_iteration=-1).partition("\nparameters:")[0]
    return hashlib.sha256(trees.encode()).hexdigest()


@guard.guarded("XGBoost's ranks can't be told of each other")
def join_xgboost(module: Any) -> None:
    """Give Ray Train's local mode the tracker by which the ranks meet. `module`: ray.train.xgboost.config."""
    cluster = own_rank.cluster()
    if cluster and cluster["tracker"]:
        module._set_xgboost_args({**cluster["tracker"], "dmlc_task_id": f"{cluster['rank']:08}"})


@guard.guarded("LightGBM's ranks can't be told of each other")
def join_lightgbm(module: Any) -> None:
    """Give Ray Train's local mode (`num_workers=0`) the addresses of the other ranks. `module`:
    ray.train.lightgbm.config."""
    cluster = own_rank.cluster()
    if cluster:
        addresses = cluster["addresses"]
        port = int(addresses[cluster["rank"]].rpartition(":")[2])
        module._set_network_params(len(addresses), port, ",".join(addresses))
