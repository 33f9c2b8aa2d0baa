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
    tf.float32 = tf.float64
    tf.cast = lambda value, dtype, *more, **named: cast(
        value, tf.float64 if tf.as_dtype(dtype).is_floating else dtype, *more, **named
    )


def _double(make: Any, cast: Any, double: Any) -> Any:
    def double_(*args: Any, **more: Any) -> Any:
        result = make(*args, **more)
        return cast(result, double) if result.dtype.is_floating else result

    return double_
