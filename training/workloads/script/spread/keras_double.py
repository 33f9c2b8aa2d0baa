"""A script of tf-keras that computes in 64 bits, whatever it says."""

from __future__ import annotations

import sys
from typing import Any

MADE = ("constant", "convert_to_tensor", "ones", "zeros", "eye", "linspace")
MADE_BY_CHANCE = ("normal", "uniform", "truncated_normal")
"""Functions of TensorFlow that make numbers of 32 bits where the script says nothing else."""


def compute(tf: Any, keras: Any) -> None:
    """Have layers, and what the script makes itself, have 64 bits."""
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
    """Return a maker of data sets whose rows have 64 bits, as what the script makes of chance for them has."""

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
