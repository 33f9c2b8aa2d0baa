"""One process of a script for XGBoost or LightGBM: `train` has a part of the rows, in the library's own collective.

Groups of a ranking stay whole. XGBoost adds up metrics of all ranks, so evaluation sets are divided, too. LightGBM's
are of one rank's rows, so each rank has them whole and all end at one round.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import chance, later, library_files
from .imports import when_imported
from .originals import Enough, write_json
from .settings import Settings, addresses

GOODBYE_SECONDS = 60
OF_THREADS = ("nthread", "nthreads", "n_jobs", "num_thread", "num_threads")
OF_ROUNDS = (
    "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round", "num_rounds", "nrounds",
    "num_boost_round", "n_estimators", "max_iter",
)  # fmt: skip
"""Parameters of LightGBM that take precedence over the argument `num_boost_round`."""
ELSE = {"xgboost": ("update", "boost"), "lightgbm": ("update",)}
"""Methods of a Booster by which a script trains without `train`."""
BOOSTING = ("boosting", "boosting_type", "boost")
"""Names of LightGBM's parameter for the kind of boosting."""


class TreesProcess:
    """Changes `train` of XGBoost and LightGBM in one process of a script, so that the process trains as a rank."""

    def __init__(self, settings: Settings) -> None:
        """Have the libraries changed when the script imports them."""
        self._settings = settings
        self._facts: dict[str, Any] = {"trained": 0, "framework": settings.framework}
        self._communicator: Any = None
        self._calls, self._unproved = 0, later.Unproved()
        self._tracking: threading.Thread | None = None
        self._has_network = self._trains = False
        chance.seed(settings.seed)
        self._layer = library_files.redirect(settings.private) if settings.private else None
        when_imported("xgboost", self._install_xgboost)
        when_imported("lightgbm", self._install_lightgbm)

    def _install_xgboost(self, xgboost: Any) -> None:
        for each in (xgboost.DMatrix, xgboost.QuantileDMatrix, getattr(xgboost, "ExtMemQuantileDMatrix", None)):
            if each is not None:
                _remember(each, by_iterator=each is xgboost.DMatrix)
        self._wrap("xgboost", ("xgboost", "xgboost.training", "xgboost.sklearn"), self._xgboost)

    def _install_lightgbm(self, lightgbm: Any) -> None:
        _remember(lightgbm.Dataset)
        self._wrap("lightgbm", ("lightgbm", "lightgbm.engine", "lightgbm.sklearn"), self._lightgbm)

    def _wrap(self, library: str, modules: tuple[str, ...], change: Any) -> None:
        module = sys.modules[modules[0]]
        train = module.train
        signature = inspect.signature(train)
        if self._layer is not None:
            library_files.redirect_trees(self._layer, library, module)
        if self._settings.world > 1:
            self._compute_whole(module, "cv", f"`{library}.cv`")
            for name in ELSE[library]:
                self._compute_whole(module.Booster, name, f"`{library}.Booster.{name}`")

        @functools.wraps(train)
        def wrapped(*args: Any, **more: Any) -> Any:
            bound = signature.bind(*args, **more)
            arguments = bound.arguments
            self._begin(library, arguments)
            change(arguments)
            self._trains = True
            try:
                result = train(*bound.args, **bound.kwargs)
            finally:
                self._trains = False
            if library == "lightgbm":
                result._network = False  # which it would end with itself: its ports are free again too late for another
                self._has_network = True
            if self._settings.out:
                self._facts |= {"trained": 1, **_trees_of(library, result, arguments)}
                raise Enough(0)
            return result

        for name in modules:
            if hasattr(sys.modules.get(name), "train"):
                sys.modules[name].train = wrapped  # type: ignore[attr-defined]

    def _begin(self, library: str, arguments: dict[str, Any]) -> None:
        """Record a call of `train`, and set in its arguments the threads and rounds of this process."""
        arguments["params"] = self._with_threads(arguments["params"])
        if self._settings.steps:
            self._shorten(arguments)
        self._facts["framework"] = library
        self._calls += 1
        if self._calls == 2 and self._settings.world > 1 and not self._settings.rank:
            self._unproved.say(library, f"another call the script trains by `{library}.train`")

    def _shorten(self, arguments: dict[str, Any]) -> None:
        """Limit the rounds to those that the proof (a few rounds that show that ranks do the same work) needs,
        whichever argument or parameter sets them."""
        wanted, steps = arguments.get("num_boost_round", 10), self._settings.steps
        arguments["num_boost_round"] = min(wanted, steps)
        if isinstance(arguments["params"], dict):
            arguments["params"] |= {
                name: min(arguments["params"][name], steps) for name in OF_ROUNDS if name in arguments["params"]
            }

    def _compute_whole(self, owner: Any, name: str, what: str) -> None:
        """Have each rank run the method `name`, which trains without `train`, as if it were alone, and say so once. The
        method runs in another thread, which has not joined the other ranks."""
        call = getattr(owner, name)

        @functools.wraps(call)
        def whole(*args: Any, **more: Any) -> Any:
            if self._trains:
                return call(*args, **more)
            if not self._settings.rank:
                self._unproved.say(what, f"{what} each rank trains on all rows")
            self._trains = True
            try:
                with ThreadPoolExecutor(1) as thread:
                    return thread.submit(call, *args, **more).result()
            finally:
                self._trains = False

        setattr(owner, name, whole)

    def _with_threads(self, params: Any) -> Any:
        """Return the parameters with this process's number of threads: one in a run of the proof, because several such
        runs go on at once. A rank gets no more threads than its worker has, even if it could use other workers'
        CPUs."""
        if not isinstance(params, dict):  # pairs, of which several may have one name
            return params
        own: dict[str, Any] = dict(params)
        if self._settings.steps:
            return {**{name: value for name, value in own.items() if name not in OF_THREADS}, "nthread": 1}
        most = int(os.environ.get("OMP_NUM_THREADS") or 0) if self._settings.world > 1 else 0
        for name in OF_THREADS:
            if most and name in own and not 0 < int(own[name] or 0) <= most:
                own[name] = most
        return own

    def _xgboost(self, arguments: dict[str, Any]) -> None:
        """Join the other ranks, and replace the matrices in the arguments by this rank's part of them."""
        from .trees_parts import MatrixParts

        if hasattr(getattr(arguments["dtrain"], "made_of", {}).get("data"), "next"):
            self._refuse("rows by an iterator")
        if dict(arguments["params"]).get("booster") == "gblinear":
            self._refuse("no trees")
        parts = MatrixParts(self._settings, dict(arguments["params"]).get("max_bin", 256))
        if self._settings.world > 1 and self._communicator is None:
            self._communicator = self._joined()
        arguments["dtrain"] = parts.of(arguments["dtrain"])
        arguments["evals"] = [(parts.evaluated(each), name) for each, name in arguments.get("evals") or ()]
        self._facts["rows"] = arguments["dtrain"].num_row()

    def _joined(self) -> Any:
        """Join the other ranks by XGBoost's tracker, which runs in rank 0, and return the communicator; False if Ray
        has joined the ranks already."""
        from xgboost import collective
        from xgboost.tracker import RabitTracker

        if collective.is_distributed():
            return False
        settings = self._settings
        where = settings.store.split(",")[0].rpartition(":")
        if settings.rank == 0:
            tracker = RabitTracker(n_workers=settings.world, host_ip=where[0], sortby="task")
            tracker.start()
            self._tracking = threading.Thread(target=tracker.wait_for, daemon=True)
            self._tracking.start()
            own = tracker.worker_args()
            family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
            listener = socket.create_server((where[0], int(where[2])), family=family)
            arguments = (listener, json.dumps(own).encode(), settings.world - 1)
            threading.Thread(target=_tell, args=arguments, daemon=True).start()
        else:
            own = _tracker_of(where[0], int(where[2]))
        communicator = collective.CommunicatorContext(**own, dmlc_task_id=f"{settings.rank:08}")
        communicator.__enter__()
        return communicator

    def _lightgbm(self, arguments: dict[str, Any]) -> None:
        """Replace the training set by this rank's part of it, and add the addresses of the other ranks."""
        from .trees_parts import SetParts, rows_of

        params = arguments["params"] = dict(arguments["params"])
        if self._settings.mean:
            params["boost_from_average"] = False
        parts = SetParts(self._settings, params)
        whole, names = arguments["train_set"], arguments.get("valid_sets") or []
        names = names if isinstance(names, (list, tuple)) else [names]
        if any(rows_of(each) is None for each in (whole, *names)):
            self._refuse("rows in a file")
        arguments["train_set"] = train_set = parts.of(whole)
        if names:
            arguments["valid_sets"] = [
                train_set if each is whole else parts.evaluated(each, train_set) for each in names
            ]
        self._facts["rows"] = parts.rows
        if self._settings.world > 1:
            network = {"num_machines": self._settings.world} if self._has_network else self._network()
            arguments["params"] = {"tree_learner": "data", **params, "pre_partition": True, **network}

    def _network(self) -> dict[str, Any]:
        """Return LightGBM's parameters with the addresses of the ranks. If Ray has given only XGBoost's collective, the
        ranks exchange their addresses through that."""
        settings = self._settings
        if not settings.store:
            from xgboost import collective

            own = f"{socket.gethostbyname(socket.gethostname())}:{addresses('lightgbm').rpartition(':')[2]}"
            settings.store = ",".join(collective.broadcast(own, rank) for rank in range(settings.world))
        port = settings.store.split(",")[settings.rank].rpartition(":")[2]
        return {"machines": settings.store, "num_machines": settings.world, "local_listen_port": int(port)}

    def _refuse(self, reason: str) -> None:
        """Record why the rows cannot be divided, and end the proof; outside of a proof raise ValueError."""
        self._facts |= {"trained": 1, "unsplit": reason}
        if self._settings.out:
            raise Enough(0)
        raise ValueError(f"ranks can't divide the script's data: {reason}")

    def end(self, error: str) -> None:
        """Write the facts that are known, and leave the group of the ranks."""
        if self._settings.out:
            path = Path(self._settings.out, f"facts-rank{self._settings.rank}.json")
            write_json(path, {**self._facts, "error": error})
        if self._communicator:
            self._communicator.__exit__(None, None, None)
        if self._tracking is not None and not error:  # the others say goodbye to the tracker, too
            self._tracking.join(GOODBYE_SECONDS)


def _tell(listener: socket.socket, where: bytes, ranks: int) -> None:
    """Tell each of the other ranks where XGBoost's tracker is. They close the connection first, because the side that
    closes first keeps its port for a minute."""
    with listener:
        for _ in range(ranks):
            connection = listener.accept()[0]
            with connection:
                connection.sendall(where + b"\n")
                connection.recv(1)


def _tracker_of(host: str, port: int) -> Any:
    """Return where XGBoost's tracker is, as rank 0 answers. Ask rank 0 until it answers: a rank that called the tracker
    before it runs would wait longer and longer."""
    while True:
        try:
            with socket.create_connection((host, port)) as connection, connection.makefile() as answer:
                return json.loads(answer.readline())
        except (OSError, ValueError):
            time.sleep(0.02)


def _remember(matrix_class: Any, *, by_iterator: bool = False) -> None:
    """Have matrices that the library cannot divide keep the data that they were made of; with `by_iterator` only if
    they were made by an iterator."""
    make = matrix_class.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def __init__(matrix: Any, *args: Any, **more: Any) -> None:
        make(matrix, *args, **more)
        made_of = dict(signature.bind(None, *args, **more).arguments)
        if not by_iterator or hasattr(made_of.get("data"), "next"):
            matrix.__dict__["made_of"] = made_of

    matrix_class.__init__ = __init__


def _trees_of(library: str, booster: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the splits and leaves of each tree, the last round's metrics, and the parameters that draw by chance."""
    chance = _drawn(library, dict(arguments["params"]))
    splits: list[Any] = []
    leaves: list[float] = []
    if library == "xgboost":
        for tree in booster.get_dump(dump_format="json"):
            _walk_xgboost(json.loads(tree), splits, leaves)
        evaluated = [booster.eval_set(arguments["evals"])] if arguments["evals"] else []
        metrics = dict(each.rsplit(":", 1) for text in evaluated for each in text.split("\t")[1:])
    else:
        for tree in booster.dump_model()["tree_info"]:
            _walk_lightgbm(tree["tree_structure"], splits, leaves)
        metrics = {f"{data}-{name}": value for data, of in booster.best_score.items() for name, value in of.items()}
    numbers = {name: float(value) for name, value in metrics.items()}
    rounds = booster.num_boosted_rounds() if library == "xgboost" else booster.current_iteration()
    return {"rounds": rounds, "splits": splits, "leaves": leaves, "metrics": numbers, "chance": chance}


def _drawn(library: str, params: dict[str, Any]) -> list[str]:
    """Return the set parameters by which rows, or the places where they are divided, are drawn by chance."""

    def value_of(*names: str) -> Any:
        return next((params[name] for name in names if params.get(name) is not None), None)

    if library == "xgboost":
        return ["subsample"] if (value_of("subsample") or 1.0) < 1.0 else []
    parts = (
        ("bagging_fraction", "subsample", "sub_row", "bagging"),
        ("pos_bagging_fraction",),
        ("neg_bagging_fraction",),
    )
    bagging = int(value_of("bagging_freq", "subsample_freq") or 0) > 0 and any(
        float(value_of(*each) or 1.0) < 1.0 for each in parts
    )
    is_drawn_by = {
        "bagging_fraction": bagging,
        "boosting": value_of(*BOOSTING) in ("goss", "rf", "random_forest"),
        "data_sample_strategy": value_of("data_sample_strategy") == "goss",
        "extra_trees": bool(value_of("extra_trees", "extra_tree")),
    }
    return [name for name, is_drawn in is_drawn_by.items() if is_drawn]


def _walk_xgboost(node: dict[str, Any], splits: list[Any], leaves: list[float]) -> None:
    if "leaf" in node:
        leaves += node["leaf"] if isinstance(node["leaf"], list) else [node["leaf"]]
        return
    splits.append([node["split"], node.get("split_condition")])
    for child in node["children"]:
        _walk_xgboost(child, splits, leaves)


def _walk_lightgbm(node: dict[str, Any], splits: list[Any], leaves: list[float]) -> None:
    if "leaf_value" in node:
        leaves.append(node["leaf_value"])
        return
    splits.append([node["split_feature"], node["threshold"]])
    for child in (node["left_child"], node["right_child"]):
        _walk_lightgbm(child, splits, leaves)
