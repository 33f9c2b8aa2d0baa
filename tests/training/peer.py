"""One process of a training, driven step by step for the tests: what it saw and what its weights were goes into a file.

Run as `python peer.py SPEC`, with a rank of its own and TF_CONFIG as in the native arm. All cases of a spec share the
process, because TensorFlow can join a cluster once only.
"""

import json
import os
import sys
from typing import Any

import numpy as np

from training.contract import provenance
from training.contract.clock import Stamp
from training.contract.process import Process
from training.launch import environment
from training.workloads.cnn import registry
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.cnn.shapes import Shape, Source
from training.workloads.cnn.sources import Images
from training.workloads.cnn.workload import WORKLOAD


@registry.model("plain")
def plain(shape: Shape) -> Any:
    """A convolution and a dense layer: neither dropout nor batch statistics, so any split gives the same gradient."""
    return _small(shape, normalised=False)


@registry.model("normalised")
def normalised(shape: Shape) -> Any:
    """The same with batch normalisation."""
    return _small(shape, normalised=True)


def _small(shape: Shape, *, normalised: bool) -> Any:
    import tensorflow as tf

    initializer = tf.keras.initializers.GlorotUniform(seed=shape.seed)
    inputs = tf.keras.Input((32, 32, 3))
    hidden = tf.keras.layers.Conv2D(4, 3, strides=2, activation="relu", kernel_initializer=initializer)(inputs)
    if normalised:
        hidden = tf.keras.layers.BatchNormalization(synchronized=shape.synchronized)(hidden)
    hidden = tf.keras.layers.GlobalAveragePooling2D()(hidden)
    outputs = tf.keras.layers.Dense(shape.classes, kernel_initializer=initializer, dtype="float32")(hidden)
    return tf.keras.Model(inputs, outputs)


@registry.dataset("coloured", train_images=0, any_size=True)
def coloured(source: Source) -> Images:
    """Random images, as a newcomer would add a data set."""
    random = np.random.default_rng(7)
    images = random.integers(0, 256, (source.train_images + 10, 32, 32, 3)).astype(np.uint8)
    labels = (np.arange(len(images)) % 10).astype(np.int32)
    return Images(images[:-10], labels[:-10], images[-10:], labels[-10:], tuple("abcdefghij"))


def main() -> None:
    """Run every case of the spec and write one file for this rank."""
    spec = json.loads(sys.argv[1])
    rank, world = spec["rank"], spec["world"]
    found: dict[str, Any] = {}
    for name, values in spec["cases"].items():
        recipe = CnnRecipe(workers=world, dataset="coloured", seed=3, warmup_steps=0, **values)
        environment.prepare(WORKLOAD, recipe.compute_threads(), rank, None)
        judged = name in spec["judged"]
        found |= {f"{name}/{key}": value for key, value in _run(recipe, rank, world, judged=judged).items()}
    np.savez(spec["out"], **found)


def _run(recipe: CnnRecipe, rank: int, world: int, *, judged: bool) -> dict[str, Any]:
    """`judged`: with an evaluation, which takes as long to trace as the training."""
    import tensorflow as tf

    from training.workloads.cnn import train

    if not _STRATEGIES:
        make = train._strategy
        train._strategy = lambda process: _STRATEGIES[0] if _STRATEGIES else _keep(make(process))
    iterated: list[str] = []
    original = tf.data.Dataset.__iter__

    def recorded(self: Any) -> Any:
        iterated.append(str(self.options().autotune.enabled))
        return original(self)

    tf.data.Dataset.__iter__ = recorded
    session = train.set_up(recipe, launch_of(rank, world))
    order = session.data.epoch_order(recipe.seed, 1)
    weights, moving, sums = [_flat(session.model)], [_moving(session.model)], []
    for step in range(session.steps_per_epoch):
        seen, _ = session.loop.steps(order, step, step + 1, 1)
        sums.append(seen)
        weights.append(_flat(session.model))
        moving.append(_moving(session.model))
    evaluation = {}
    if judged:
        session.loop.average_statistics()
        judging = session.loop.evaluate(session.data.validation(), session.data.validation_images)
        evaluation = dict(zip(("loss", "confusion"), judging, strict=True))
    tf.data.Dataset.__iter__ = original
    return evaluation | {
        "weights": np.stack(weights),
        "moving": np.stack(moving),
        "sums": np.stack(sums),
        "rows": session.data.train_rows,
        "iterated": np.array(iterated, dtype=str),
        "keras": tf.keras.Model.__module__,
    }


def _flat(model: Any) -> Any:
    return np.concatenate([variable.numpy().ravel() for variable in model.trainable_variables])


def _moving(model: Any) -> Any:
    """This replica's own moving averages: reading them in the usual way gives the mean over all."""
    local = [v._get_on_device_or_primary() if hasattr(v, "_get_on_device_or_primary") else v for v in _averages(model)]
    return np.concatenate([variable.numpy().ravel() for variable in local] or [np.zeros(1)])


def _averages(model: Any) -> Any:
    return [variable for variable in model.non_trainable_variables if "moving" in variable.name]


_STRATEGIES: list[Any] = []


def _keep(strategy: Any) -> Any:
    _STRATEGIES.append(strategy)
    return strategy


def launch_of(rank: int, world: int) -> Process:
    """A launch as the native arm has it, or the baseline where there is no TF_CONFIG."""
    arm = "native" if "TF_CONFIG" in os.environ else "baseline"
    software = provenance.software(arm, WORKLOAD, {})
    return Process(arm=arm, rank=rank, world=world, host=provenance.host(), software=software, started=Stamp.now())


if __name__ == "__main__":
    main()
