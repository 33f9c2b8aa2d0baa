"""One process of a script for tf-keras: its `fit` under MultiWorkerMirroredStrategy, which the script never sees.

TensorFlow exchanges gradients and numbers of metrics as in a port. A rank takes a part of the rows of each batch that
the script's own data gives, in the order of the ranks; where batches are not split evenly, gradients count by rows.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import chance, keras_files, library_files
from .imports import when_imported
from .keras_record import Record
from .settings import Settings

MADE = ("constant", "convert_to_tensor", "ones", "zeros", "eye", "linspace")
MADE_BY_CHANCE = ("normal", "uniform", "truncated_normal")
"""Functions of TensorFlow that create numbers of 32 bits unless the script sets another type."""


class KerasProcess:
    """Changes TensorFlow and tf-keras in one process of a script, so that the process trains as a rank."""

    def __init__(self, settings: Settings) -> None:
        """Have TensorFlow and tf-keras changed when the script imports them."""
        self.settings = settings
        self.record = Record(settings)
        self.rows: Any = None
        """Number of rows of this rank in the batch that is computed, as a tensor of its graph."""
        self._all_rows: Any = None
        """Number of rows of all ranks in that batch."""
        self._tf: Any = None
        self._reverse = settings.reverse
        self._config = os.environ.pop("TF_CONFIG", "") if settings.world > 1 else ""
        self._in_step = self._joined = False
        if settings.private:
            self._layer = library_files.redirect(settings.private)
        chance.seed(settings.seed)
        when_imported("tensorflow", self._install)
        when_imported("tf_keras", self._install_keras)
        if settings.out:
            when_imported("keras", self.record.end_keras_three)

    def _install(self, tf: Any) -> None:
        from tensorflow.python.eager import context

        self._tf = tf
        tf.random.set_seed(self.settings.seed)
        if self.settings.private:
            keras_files.redirect(self._layer)
        initialize = context.Context.ensure_initialized

        def ensure_initialized(itself: Any) -> None:
            if self.settings.world > 1:
                context.Context.ensure_initialized = initialize
                self._join()
            initialize(itself)

        context.Context.ensure_initialized = ensure_initialized
        if self.settings.world > 1:
            tf.distribute.get_strategy = self._seen(tf.distribute.get_strategy, context.ensure_initialized)

    def _seen(self, get_strategy: Any, join: Any) -> Any:
        """Return a `get_strategy` that shows the script a strategy of one process, not that of the ranks."""

        class Strategy:
            num_replicas_in_sync = 1

            def __getattr__(self, name: str) -> Any:
                return getattr(get_strategy(), name)

        def seen() -> Any:
            join()
            return Strategy()

        return seen

    def _join(self) -> None:
        """Join the other ranks, before the script's first operation and after its own settings."""
        tf = self._tf
        if self.settings.store:
            task = {"type": "worker", "index": self.settings.rank}
            cluster = {"worker": [_as_url(each) for each in self.settings.store.split(",")]}
            self._config = json.dumps({"cluster": cluster, "task": task})
        os.environ["TF_CONFIG"] = self._config  # Ray's own, where Ray has started this rank
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        del os.environ["TF_CONFIG"]
        strategy.experimental_distribute_dataset = lambda data, *_: strategy.distribute_datasets_from_function(
            lambda _: self._parts(data)
        )
        tf.distribute.experimental_set_strategy(strategy)
        self._joined = True

    def _install_keras(self, keras: Any) -> None:
        from tf_keras.src.optimizers import optimizer
        from tf_keras.src.optimizers.legacy import optimizer_v2

        if self.settings.double:
            _compute_in_64_bits(self._tf, keras)
        if not self.settings.statistics:
            _evaluate(keras.layers.Layer)
        if self.settings.world == 1 and (self.settings.reverse or self.settings.double):
            self._look_at_batches(keras.Model)
        self._step(keras.Model)
        self._exchange(optimizer.Optimizer, "aggregate_gradients")
        self._exchange(optimizer_v2.OptimizerV2, "_aggregate_gradients")
        for kind in (optimizer._BaseOptimizer, optimizer_v2.OptimizerV2):
            self._note(kind)

    def _look_at_batches(self, model_class: Any) -> None:
        """Have the batches of a script that runs alone reversed, or widened to 64 bits. They are not reversed in
        `predict`, whose results the script gets by row."""
        alone, predict = self._tf.distribute.get_strategy(), model_class.predict

        def predicted(*args: Any, **more: Any) -> Any:
            reverse, self._reverse = self._reverse, False
            try:
                return predict(*args, **more)
            finally:
                self._reverse = reverse

        alone.experimental_distribute_dataset = lambda data, *_: self._parts(data)
        model_class.predict = predicted

    def _parts(self, data: Any) -> Any:
        """Return the data set with this rank's rows of each batch and, for several ranks, the rows of all."""
        several, world = isinstance(data.element_spec, tuple), self.settings.world

        def part(*batch: Any) -> Any:
            whole = batch if several else batch[0]
            return (self._part(whole), self._count(whole)) if world > 1 else self._part(whole)

        return data.map(part)

    def _count(self, batch: Any) -> Any:
        """Return the number of rows of a batch."""
        tf = self._tf
        first = next(each for each in tf.nest.flatten(batch) if each is not None and each.shape.rank)
        return first.nrows() if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]

    def _part(self, batch: Any) -> Any:
        """Return this rank's rows of a batch; in the run with reversed rows, all of them in reverse order."""
        tf, rank, world = self._tf, self.settings.rank, self.settings.world

        def part(tensor: Any) -> Any:
            if not isinstance(tensor, (tf.Tensor, tf.RaggedTensor)) or not tensor.shape.rank:
                return tensor
            if self.settings.double and tensor.dtype.is_floating:
                tensor = tf.cast(tensor, tf.float64)
            if self._reverse:
                return tensor[::-1]
            rows = tf.shape(tensor)[0] if isinstance(tensor, tf.Tensor) else tensor.nrows()
            return tensor[rows * rank // world : rows * (rank + 1) // world]

        return tf.nest.map_structure(part, batch)

    def _step(self, model_class: Any) -> None:
        make = model_class.make_train_function
        if self.settings.world > 1:
            for name in ("test", "predict"):
                self._without_count(model_class, f"make_{name}_function", f"{name}_step")

        def make_train_function(model: Any, force: bool = False) -> Any:
            if "train_step" not in model.__dict__:
                model.__dict__["train_step"] = self._counted(model, model.train_step)
            if self.record.looks:
                model._jit_compile = False
            function = make(model, force)
            return self.record.looking(model, function) if self.record.looks else function

        model_class.make_train_function = make_train_function

    def _without_count(self, model_class: Any, making: str, step: str) -> None:
        """Have a step of Keras get only the rows of this rank, without the number that comes with each batch."""
        make = getattr(model_class, making)

        def make_one(model: Any, *args: Any, **more: Any) -> Any:
            if step not in model.__dict__:
                of_rows = getattr(model, step)
                model.__dict__[step] = lambda data: of_rows(data[0])
            return make(model, *args, **more)

        setattr(model_class, making, make_one)

    def _counted(self, model: Any, train_step: Any) -> Any:
        """Return a training step that knows the number of rows in its batch."""
        tf = self._tf

        def step(data: Any) -> Any:
            if self.settings.world > 1:
                data, self._all_rows = data
            self.rows = self._count(data)
            self.record.rows(tf, self.rows)
            self._in_step = True
            try:
                result = train_step(data)
            finally:
                self._in_step = False
            self.record.trained(model)
            return result

        return step

    def _exchange(self, kind: Any, name: str) -> None:
        exchange = getattr(kind, name)

        def exchanged(optimizer: Any, grads_and_vars: Any) -> Any:
            pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
            self.record.gradients(self._tf, pairs)
            return exchange(optimizer, [(self._weighted(gradient), variable) for gradient, variable in pairs])

        setattr(kind, name, exchanged)

    def _weighted(self, gradient: Any) -> Any:
        """Return this rank's gradient weighted by its share of the rows; Keras would weight all ranks equally."""
        weight = self._weight()
        if weight is None:
            return gradient
        tf = self._tf
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values * tf.cast(weight, gradient.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient * tf.cast(weight, gradient.dtype)

    def _weight(self) -> Any:
        tf, world = self._tf, self.settings.world
        share = 1 / world if self.settings.mean else 1.0
        if world == 1 or not self._in_step:
            return None if share == 1.0 else tf.constant(share, tf.float64)
        return share * world * tf.cast(self.rows, tf.float64) / tf.cast(self._all_rows, tf.float64)

    def _note(self, kind: Any) -> None:
        """Have steps of an optimizer recorded that no call of `fit` makes."""
        apply = kind.apply_gradients

        def apply_gradients(optimizer: Any, *args: Any, **more: Any) -> Any:
            if not self._in_step:
                self.record.by_hand()
            return apply(optimizer, *args, **more)

        kind.apply_gradients = apply_gradients

    def end(self, error: str) -> None:
        """Write the facts that are known, and leave the group of the ranks."""
        if self.settings.out:
            self.record.write(error)
        if self._joined:
            self._tf.distribute.experimental_set_strategy(None)


def _as_url(address: str) -> str:
    """Return the address as gRPC reads it, `host:port`, with an IPv6 address in brackets."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host else address


def _evaluate(layer_class: Any) -> None:
    """Have layers compute as in evaluation: without chance, and without statistics of the batch."""
    call = layer_class.__call__

    def __call__(layer: Any, *args: Any, **more: Any) -> Any:
        if layer._call_spec.expects_training_arg:
            more["training"] = False
        return call(layer, *args, **more)

    layer_class.__call__ = __call__


def _compute_in_64_bits(tf: Any, keras: Any) -> None:
    """Have layers, and the tensors that the script itself creates, use 64 bits."""
    keras.backend.set_floatx("float64")
    keras.backend.set_floatx = lambda *_: None
    policies: Any = sys.modules["tf_keras.src.mixed_precision.policy"]
    keras.mixed_precision.set_global_policy = policies.set_global_policy = lambda *_: None
    cast = tf.cast
    for module, names in ((tf, MADE), (tf.random, MADE_BY_CHANCE)):
        for name in names:
            setattr(module, name, _double(getattr(module, name), cast, tf.float64))
    for name in ("from_tensors", "from_tensor_slices"):
        setattr(tf.data.Dataset, name, _of_doubles(tf, getattr(tf.data.Dataset, name), cast))
    tf.float32 = tf.float64
    tf.cast = lambda value, dtype, *more, **named: cast(
        value, tf.float64 if tf.as_dtype(dtype).is_floating else dtype, *more, **named
    )


def _of_doubles(tf: Any, make: Any, cast: Any) -> Any:
    """Return a function that makes data sets whose rows have 64 bits, because random data that the script makes for
    such rows has 64 bits, too."""

    def double(value: Any) -> Any:
        is_of_numpy = getattr(getattr(value, "dtype", None), "kind", "") == "f"
        return cast(value, tf.float64) if is_of_numpy or (tf.is_tensor(value) and value.dtype.is_floating) else value

    def of_doubles(tensors: Any, *args: Any, **more: Any) -> Any:
        return make(tf.nest.map_structure(double, tensors), *args, **more)

    return staticmethod(of_doubles)


def _double(make: Any, cast: Any, double: Any) -> Any:
    def double_(*args: Any, **more: Any) -> Any:
        result = make(*args, **more)
        return cast(result, double) if result.dtype.is_floating else result

    return double_
