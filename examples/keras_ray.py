"""Trains a small network on synthetic pictures with Ray Train's TensorflowTrainer, as Ray's guide has it.

python keras_ray.py --num-workers 2 --epochs 3
"""

import argparse
import os
from typing import Any

import numpy as np
import ray.train
from ray.train.tensorflow import TensorflowTrainer


def pictures(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, half of it a little brighter."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, count)
    images = generator.standard_normal((count, 32, 32, 3)) + 0.2 * labels[:, None, None, None]
    return images.astype(np.float32), labels


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    import tensorflow as tf
    import tf_keras as keras

    shared = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
    keras.utils.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(pictures(2048)).shuffle(2048, seed=1)
    data = data.batch(config["batch"], drop_remainder=True)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Conv2D(16, 3, activation="relu", input_shape=(32, 32, 3)),
                keras.layers.Conv2D(16, 3, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(2),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    history = model.fit(data, epochs=config["epochs"], verbose=2)
    ray.train.report({name: values[-1] for name, values in history.history.items()})


def main() -> None:
    """Start the workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all workers")
    parser.add_argument("--storage", help="where Ray keeps its files; its own choice is ~/ray_results")
    options = parser.parse_args()
    TensorflowTrainer(
        train,
        train_loop_config={"batch": options.batch, "epochs": options.epochs},
        scaling_config=ray.train.ScalingConfig(num_workers=options.num_workers),
        run_config=ray.train.RunConfig(storage_path=options.storage),
    ).fit()


if __name__ == "__main__":
    main()
