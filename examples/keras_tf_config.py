"""Trains a small network on synthetic pictures with `model.fit`, on as many workers as TF_CONFIG names, or alone.

python keras_tf_config.py --epochs 3
"""

import argparse
import os

import numpy as np
import tensorflow as tf
import tf_keras as keras


def pictures(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, half of it a little brighter."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, count)
    images = generator.standard_normal((count, 32, 32, 3)) + 0.2 * labels[:, None, None, None]
    return images.astype(np.float32), labels


def main() -> None:
    """Train, and let Keras print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all workers")
    options = parser.parse_args()

    shared = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
    keras.utils.set_random_seed(1)
    images, labels = pictures(2048)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(2048, seed=1)
    data = data.batch(options.batch, drop_remainder=True)
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
    model.fit(data, epochs=options.epochs, verbose=2)


if __name__ == "__main__":
    main()
