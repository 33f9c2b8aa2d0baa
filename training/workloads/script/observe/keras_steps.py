"""Steps of `Model.fit`, of Keras 3 and tf-keras, by a callback beside the script's own. Own loops are not seen.

Keras counts no rows: those of a step are what `fit` was told (its batch size, or the data set's), over all ranks.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import state
from .loaders import Pass
from .work import Optimizer


def observe_models(module: Any) -> None:
    """Add the callback in every `fit`. `module`: keras or tf_keras, complete."""
    model, callback = module.Model, module.callbacks.Callback
    fit = model.fit
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def fit_observed(self: Any, *args: Any, **more: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **more)
            steps = _callback_class(callback)(_rows_per_step(bound.arguments))
            bound.arguments["callbacks"] = _with(bound.arguments.get("callbacks"), steps)
        except Exception as error:  # noqa: BLE001 (a `fit` that nobody tried: it trains, unobserved)
            state.note(f"fit can't be observed: {error!r}")
            return fit(self, *args, **more)
        with state.current().with_own_hooks():
            return fit(*bound.args, **bound.kwargs)

    model.fit = fit_observed


def _with(callbacks: Any, steps: Any) -> Any:
    if hasattr(callbacks, "append") and not isinstance(callbacks, list):  # a CallbackList
        callbacks.append(steps)
        return callbacks
    return [*(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []), steps]


def _rows_per_step(arguments: dict[str, Any]) -> int | None:
    """Rows of one step over all ranks, as far as `fit` was told."""
    data = arguments.get("x")
    spec = getattr(data, "element_spec", None)
    while isinstance(spec, (tuple, list)) and spec:
        spec = spec[0]
    shape = getattr(spec, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) and shape[0] is not None else None
    size = arguments.get("batch_size")
    return int(size) if size else 32 if hasattr(data, "shape") else None


@functools.cache
def _callback_class(base: Any) -> Any:
    class Steps(base):  # type: ignore[misc]
        """Counts batches; takes what Keras has, and has it wait for nothing."""

        _supports_tf_logs = True
        async_safe = True

        def __init__(self, rows: int | None) -> None:
            super().__init__()
            self.rows = rows

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' names)
            """A pass over the data begins."""
            now = state.current()
            now.own_passes.append(Pass(len(now.step_ends)))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """A step is over."""
            if _count(base.__module__, self.model, self.params, self.rows):
                raise state.Enough(0)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """The pass is over, and its metrics are there."""
            if _end_epoch(logs or {}):
                raise state.Enough(0)

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """The training is over, and the model may be gone soon."""
            _keep()

        def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Count a validation."""
            state.current().other_validations += 1

    return Steps


def _count(module: str, model: Any, params: dict[str, Any], rows: int | None) -> bool:
    """A step of this model; whether that is enough."""
    now = state.current()
    with now.hook():
        if not now.step_ends:
            now.framework, now.rows_per_step = module.partition(".")[0], rows
            now.threads = _threads(module)
            now.epoch_steps, now.epochs = params.get("steps"), params.get("epochs")
            now.work.rounds = now.epochs
            now.rank, _ = state.rank_of_environment()
        seen = now.work.of(model)
        if now.clock_of is not seen:
            _take_clock(now, seen, model)
        seen.step([_learning_rate(model)], len(now.step_ends))
        counted = now.step(seen)
    return counted and now.is_enough()


def _take_clock(now: state.State, seen: Optimizer, model: Any) -> None:
    """Count the steps of this model: one is fitted after another. Nothing here keeps it alive."""
    if now.clock_of is None or isinstance(now.clock_of, Optimizer):
        now.work.succeed(seen)
        now.clock_of = None
        now.take_clock(seen)
    now.world = _replicas(model)
    now.model.digest = now.model.quick_digest = functools.partial(_digest_of, now, weakref.ref(model))
    parameters, now.work.gradients.always_trained = _parameters(model)
    now.work.note_parameters(parameters)


def _keep() -> None:
    try:
        state.current().keep_weights()
    except Exception as error:  # noqa: BLE001 (the script's training is over, and it goes on)
        state.note(f"the weights could not be observed: {error!r}")


def _digest_of(now: state.State, reference: Callable[[], Any]) -> str | None:
    model = reference()
    return _digest(model) if model is not None else now.work.last[0] if now.work.last else None


def _end_epoch(logs: dict[str, Any]) -> bool:
    """A pass is over; whether that is enough."""
    now = state.current()
    for each in now.own_passes[-1:]:
        each.finished = True
    for name, value in logs.items():
        now.reports.measured(str(name), float(value), "keras")
    now.look_at_weights()
    return now.is_enough()


def _replicas(model: Any) -> int:
    """Over all processes, as the model's own strategy has them: what TF_CONFIG says need not be what was joined."""
    return int(getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1))


def _threads(module: str) -> int | None:
    """Intra-op threads as the script asks TensorFlow for, else as its variable says; None with another backend."""
    tensorflow, keras = sys.modules.get("tensorflow"), sys.modules.get("keras")
    if tensorflow is None or (module.startswith("keras.") and keras and keras.backend.backend() != "tensorflow"):
        return None
    threads = tensorflow.config.threading.get_intra_op_parallelism_threads()
    return int(threads or os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or None


def _learning_rate(model: Any) -> float:
    """0 where the optimizer has none that is a number."""
    try:
        return float(model.optimizer.learning_rate.numpy())
    except (AttributeError, TypeError, ValueError):
        return 0.0


def _parameters(model: Any) -> tuple[str, int]:
    """Return the number of parameters by type, and how many of them are trained."""
    counts = Counter[str]()
    for weight in model.weights:
        counts[str(weight.dtype).rpartition("'")[0].rpartition("'")[2] or str(weight.dtype)] += math.prod(weight.shape)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return " + ".join(f"{number} {kind}" for kind, number in sorted(counts.items())), trained


def _digest(model: Any) -> str:
    total = hashlib.sha256()
    for weights in model.get_weights():
        total.update(weights.tobytes())
    return total.hexdigest()
