"""Steps of `Model.fit`, of Keras 3 and tf-keras, by a callback beside the script's own. Own loops are not seen.

Keras counts no rows: those of a step are what `fit` was told (its batch size, or the data set's), over all ranks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import math
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from . import guard, own_rank, state
from .loaders import Pass
from .reports import number
from .work import Optimizer

LOOKS = ("evaluate", "predict", "_symbolic_build")
"""Methods of a model that read data from which nothing is learned."""
ON_READ = "ON_READ"
"""End of the name of the synchronization mode of variables that ranks add up when the variables are read."""
LAST_EXECUTION = "Keras does not tell how many of the steps that it executes together a pass ended with"


@guard.guarded("Keras can't be observed")
def observe_models(module: Any) -> None:
    """Add the observer's callback to every call of `fit`. `module`: keras or tf_keras, completely loaded."""
    fit, callback = module.Model.fit, _callback_class(module.callbacks.Callback)
    module.Model.fit = _fit(fit, inspect.signature(fit), callback)
    for name in LOOKS:
        if hasattr(module.Model, name):
            setattr(module.Model, name, _look(getattr(module.Model, name)))


@guard.around("data that a model only looks at could not be told", *guard.ROWS)
def _look(*_: Any, **__: Any) -> Iterator[None]:
    now = state.current()
    before, now.only_looks = now.only_looks, True
    try:
        yield
    finally:
        now.only_looks = before


@guard.around("a call of `fit` can't be observed", *guard.STEPS, *guard.ROWS)
def _fit(signature: inspect.Signature, callback: Any, *args: Any, **more: Any) -> Iterator[tuple[Any, Any]]:
    bound = signature.bind(*args, **more)
    steps = callback(bound.arguments)
    with state.current().with_own_hooks(), _among(steps, bound.arguments):
        yield bound.args, bound.kwargs


@contextlib.contextmanager
def _among(steps: Any, arguments: dict[str, Any]) -> Iterator[None]:
    """Add the observer's callback to those that `fit` calls. A CallbackList of the script is afterwards as before."""
    callbacks: Any = arguments.get("callbacks")
    if not hasattr(callbacks, "append") or isinstance(callbacks, list):
        several = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
        arguments["callbacks"] = [*several, steps]
        yield
        return
    steps.set_params(callbacks.params)  # a CallbackList that the script made: it has told its callbacks already
    steps.set_model(arguments["self"])
    callbacks._should_call_train_batch_hooks = True
    callbacks.append(steps)
    try:
        yield
    finally:
        callbacks.callbacks.remove(steps)


def _rows_per_step(arguments: dict[str, Any]) -> int | None:
    """Return the rows of one step over all ranks, from the arguments of `fit`; None if the arguments do not say it."""
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
        """Counts batches. It uses only values that Keras has already, and Keras waits for nothing because of it. On
        PyTorch a step is over when the callback is called: all ranks end after the same step, with the rows of that
        step."""

        _supports_tf_logs = True
        async_safe = not _is_on_torch()

        def __init__(self, arguments: dict[str, Any]) -> None:
            super().__init__()
            self.batches = Batches(arguments)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' names)
            """Record that a pass over the data begins."""
            _begin_epoch(self.batches, self.model)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Record that the execution of one or several steps begins."""
            _begin_batch(self.batches, batch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Count the steps of the execution that has ended."""
            _end_batch(self.batches, self.model, self.params, batch, base.__module__)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Record that the pass is over, with its metrics."""
            _end_epoch(self.batches, self.model, logs or {})

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Record the weights, because the training is over and the model may be gone soon."""
            _keep()

        def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras' name)
            """Count a validation."""
            _begin_validation()

    return Steps


class Batches:
    """The batches of one call of `fit`. Keras reports the first and the last batch of an execution of several steps,
    where the last may lie beyond the end of the data. It may report the end from another thread."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        """Read the batch size and the epochs from `arguments`, which are the arguments of `fit`."""
        self.rows = _rows_per_step(arguments)
        self.epochs = int(arguments.get("epochs", 1)) - int(arguments.get("initial_epoch", 0))
        self.batches_so_far: int | None = None
        """Batches of this pass, with those before the training was resumed; None before the first."""
        self.began: dict[int, float] = {}
        """Start of each execution in progress, in seconds of the script's clock, by its first batch."""
        self.updates: int | None = None
        """How often the weights had been updated before this pass."""
        self._counted = 0

    def begin_pass(self, updates: int | None) -> None:
        """Record that a pass begins, before which the optimizer has updated the weights `updates` times."""
        self.batches_so_far, self._counted = None, 0
        self.began.clear()
        self.updates = updates

    def begin(self, batch: int, now: float) -> None:
        """Record that an execution begins with the batch `batch`."""
        if self.batches_so_far is None:
            self.batches_so_far = batch
        self.began[batch] = now

    def end(self, last: int, steps: int | None, now: float) -> list[float]:
        """Return the ends of the steps of an execution up to the batch `last`, as if all its steps took equally long.
        `steps`: the number of steps in a pass; None where Keras does not know it yet."""
        first = self.batches_so_far or 0
        self.batches_so_far = max(first, min(last + 1, steps or last + 1))
        executed, began = self.batches_so_far - first, self.began.pop(first, now)
        self._counted += executed
        return [began + (now - began) * (step + 1) / executed for step in range(executed)]

    def are_all(self, updates: int | None) -> bool:
        """Return whether the optimizer's count of updates fits the steps counted in this pass: the optimizer makes a
        whole number of updates in a step, or an update every so many steps."""
        if updates is None or self.updates is None or updates == self.updates:
            return True
        counted = updates - self.updates
        return not (self._counted % counted and counted % max(1, self._counted))


@guard.guarded("the start of an epoch could not be observed", *guard.STEPS)
def _begin_epoch(batches: Batches, model: Any) -> None:
    now = state.current()
    now.own_passes.append(Pass(len(now.step_ends)))
    batches.begin_pass(_updates(model))


@guard.guarded("the start of a step could not be observed", *guard.STEPS)
def _begin_batch(batches: Batches, batch: int) -> None:
    now = state.current()
    at = now.script_seconds()
    with now.hook():
        now.thread = now.thread or threading.get_ident()  # the end may be told in another
        batches.begin(batch, at)


@guard.guarded("a step could not be observed", *guard.STEPS, *guard.ROWS)
def _end_batch(batches: Batches, model: Any, params: dict[str, Any], last: int, module: str) -> None:
    """Count the steps of an execution. Raises state.Enough after the last step that is wanted."""
    now = state.current()
    at = now.script_seconds()
    with now.hook():
        if not now.step_ends:
            now.framework, now.rows_per_step = module.partition(".")[0], batches.rows
            now.threads = _threads(module)
            now.epoch_steps = params.get("steps")
            now.epochs = now.work.rounds = batches.epochs
            now.rank = _group().get_rank() if _group() else own_rank.of_environment()[0]
        seen = now.work.of(model)
        if now.clock_of is not seen:
            _take_clock(now, seen, model)
        ends = batches.end(last, params.get("steps"), at)
        now.executed_together = max(now.executed_together, len(ends))
        for number_of in range(len(ends)):
            seen.step([_learning_rate(model)], len(now.step_ends) + number_of)
        counted = bool(ends) and now.step(seen, ends=ends)
    if counted and now.is_enough():
        raise state.Enough(0)


def _take_clock(now: state.State, seen: Optimizer, model: Any) -> None:
    """Count this model's steps from now on, as a script may fit one after another, and do not keep it alive."""
    if now.clock_of is None or isinstance(now.clock_of, Optimizer):
        now.work.succeed(seen)
        now.clock_of = None
        now.take_clock(seen)
    now.world = _replicas(model)
    now.model.digest = now.model.quick_digest = functools.partial(_digest_of, now, weakref.ref(model))
    parameters, now.work.gradients.always_trained = _parameters(model)
    now.work.note_parameters(parameters)


@guard.guarded("the end of an epoch could not be observed", *guard.STEPS, guard.METRICS)
def _end_epoch(batches: Batches, model: Any, logs: dict[str, Any]) -> None:
    """Record the end of a pass. Raises state.Enough if the run is to end here."""
    now = state.current()
    for each in now.own_passes[-1:]:
        each.finished = True
    for name, value in logs.items():
        now.reports.measured(str(name), value, "keras")
    if now.executed_together > 1 and not batches.are_all(_updates(model)):
        guard.lose(LAST_EXECUTION, *guard.STEPS)
    now.look_at_weights()
    if now.is_enough():
        raise state.Enough(0)


@guard.guarded("a validation could not be observed", "validation")
def _begin_validation() -> None:
    state.current().other_validations += 1


@guard.guarded("the weights could not be observed", "weights")
def _keep() -> None:
    state.current().keep_weights()


def _digest_of(now: state.State, reference: Callable[[], Any]) -> str | None:
    model = reference()
    return _digest(model) if model is not None else now.work.last[0] if now.work.last else None


def _replicas(model: Any) -> int:
    """Return how many replicas all processes have, by the model's strategy, which may differ from TF_CONFIG."""
    if _group():
        return int(_group().get_world_size())
    return int(getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1))


def _group() -> Any:
    """Return the module `torch.distributed` if Keras is on PyTorch and in a process group here; else None."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if _is_on_torch() and own_rank.has_joined(distributed) else None


def _is_on_torch() -> bool:
    backend: Any = getattr(sys.modules.get("keras"), "backend", None)  # it may be half imported
    return hasattr(backend, "backend") and bool(backend.backend() == "torch")


def _threads(module: str) -> int | None:
    """Return the number of intra-op threads that the script sets in TensorFlow, or else TF_NUM_INTRAOP_THREADS; None if
    neither is set, or with another backend."""
    tensorflow, keras = sys.modules.get("tensorflow"), sys.modules.get("keras")
    if tensorflow is None or (module.startswith("keras.") and keras and keras.backend.backend() != "tensorflow"):
        return None
    threads = tensorflow.config.threading.get_intra_op_parallelism_threads()
    return int(threads or os.environ.get("TF_NUM_INTRAOP_THREADS") or 0) or None


def _learning_rate(model: Any) -> float:
    """Return the optimizer's learning rate; 0 if it is not a number."""
    return _of_optimizer(model, "learning_rate") or 0.0


def _updates(model: Any) -> int | None:
    """Return how often the optimizer has changed the weights; None where it does not count."""
    counted = _of_optimizer(model, "iterations")
    return None if counted is None else int(counted)


def _of_optimizer(model: Any, name: str) -> float | None:
    try:
        return number(getattr(model.optimizer, name).numpy())
    except (AttributeError, TypeError, ValueError):
        return None


def _parameters(model: Any) -> tuple[str, int]:
    """Return the number of parameters by type, and how many of them are trained."""
    counts = Counter[str]()
    for weight in model.weights:
        counts[str(weight.dtype).rpartition("'")[0].rpartition("'")[2] or str(weight.dtype)] += math.prod(weight.shape)
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    return " + ".join(f"{number} {kind}" for kind, number in sorted(counts.items())), trained


def _digest(model: Any) -> str:
    """Return a hash of the weights, without variables that ranks add up when they are read, such as statistics of
    batches: a rank that reads such a variable alone would wait forever."""
    total = hashlib.sha256()
    kept = [each for each in model.weights if not str(getattr(each, "synchronization", "")).endswith(ON_READ)]
    arrays = model.get_weights() if len(kept) == len(model.weights) else [each.numpy() for each in kept]
    for array in arrays:
        total.update(array.tobytes())
    return total.hexdigest()
