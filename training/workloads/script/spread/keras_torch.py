"""Keras 3 on PyTorch: its optimizers are none of `torch.optim`, and what its layers keep are no buffers.

Here they are recorded as PyTorch's own are. `fit` reads arrays by a DataLoader, as other scripts do.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from . import places
from .batches import Loaders
from .exchange import Optimizers
from .operations import Operations

APART = ("evaluate", "predict", "_symbolic_build")
"""Methods of a model whose passes begin, within `fit`, in the same line of the script as training passes. What they
draw by chance, such as the first weights, belongs to no row."""


def tell(keras: Any, loaders: Loaders, optimizers: Optimizers) -> None:
    """Have Keras' weights, optimizers and passes recorded like those of PyTorch."""
    _weights(keras, optimizers)
    _steps(keras.optimizers.Optimizer, optimizers)
    for name in APART:
        _passes(keras.Model, name, loaders)


def _weights(keras: Any, optimizers: Optimizers) -> None:
    """Record each variable that is created, and the layers, which know the variables that are not trained."""
    begin, make = keras.Variable.__init__, keras.Layer.__new__

    def __init__(variable: Any, *args: Any, **more: Any) -> None:
        begin(variable, *args, **more)
        optimizers.variables.append(weakref.ref(variable))

    def __new__(kind: Any, *args: Any, **more: Any) -> Any:
        layer = make(kind, *args, **more)
        optimizers.layers.append(weakref.ref(layer))
        return layer

    keras.Variable.__init__, keras.Layer.__new__ = __init__, __new__


def _steps(kind: Any, optimizers: Optimizers) -> None:
    build, apply = kind.build, kind.apply

    def build_(optimizer: Any, variables: Any) -> None:
        build(optimizer, variables)
        optimizers.add(optimizer, [each.value for each in variables])

    def apply_(optimizer: Any, grads: Any, trainable_variables: Any = None) -> None:
        with optimizers.step():
            apply(optimizer, grads, trainable_variables)

    kind.build, kind.apply = build_, apply_


def _passes(kind: Any, name: str, loaders: Loaders) -> None:
    call = getattr(kind, name)

    def apart(*args: Any, **more: Any) -> Any:
        before = loaders.part_of, loaders.latest
        loaders.part_of, loaders.latest = f" {name}", None
        try:
            return call(*args, **more)
        finally:
            loaders.part_of, loaders.latest = before

    setattr(kind, name, apart)


def look(keras: Any, operations: Operations, *, statistics: bool) -> None:
    """Record that batch normalisation uses the statistics of the batch; if `statistics` is false, have it use its
    running statistics."""
    kind = keras.layers.BatchNormalization
    call: Callable[..., Any] = kind.call

    def normalise(layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if training and layer.trainable and inputs.shape[0] != 1:
            operations.batch_statistics = operations.batch_statistics or places.line() or "?"
        return call(layer, inputs, training=training and statistics, mask=mask)

    kind.call = normalise
