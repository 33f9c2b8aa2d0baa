"""Learns to tell three spirals apart with `model.fit`, on as many workers as TF_CONFIG names, or alone.

python keras_spirals.py --epochs 20 --lr 0.01 --width 64 --batch 32
"""

import argparse
import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

ARMS = 3


def spirals(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on three arms that wind around each other two and a half times, a little beside them."""
    generator = np.random.default_rng(seed)
    arms = generator.integers(0, ARMS, points)
    radius = np.sqrt(generator.uniform(0, 1, points))
    angle = 5 * np.pi * radius + 2 * np.pi * arms / ARMS
    places = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return (places + generator.normal(0, 0.025, places.shape)).astype(np.float32), arms


def main() -> None:
    """Train, and let Keras print how many points of others it tells apart."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.01, help="Adam's learning rate")
    parser.add_argument("--width", type=int, default=64, help="units of each of the two hidden layers")
    parser.add_argument("--batch", type=int, default=32, help="points a step, over all workers")
    parser.add_argument("--checkpoint", help="folder from which it goes on, if it is not empty, and which it leaves")
    options = parser.parse_args()

    shared = "TF_CONFIG" in os.environ
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
    keras.utils.set_random_seed(options.seed)
    train = tf.data.Dataset.from_tensor_slices(spirals(20000, seed=1)).shuffle(20000, seed=options.seed)
    others = tf.data.Dataset.from_tensor_slices(spirals(4000, seed=2))
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Dense(options.width, activation="relu", input_shape=(2,)),
                keras.layers.Dense(options.width, activation="relu"),
                keras.layers.Dense(ARMS),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.Adam(options.lr), loss=loss, metrics=["accuracy"])
    batches = train.batch(options.batch, drop_remainder=True)
    callbacks = []
    if options.checkpoint:  # what it goes on from has the learning rate of its own training
        callbacks.append(keras.callbacks.BackupAndRestore(options.checkpoint, delete_checkpoint=False))
        callbacks.append(keras.callbacks.LearningRateScheduler(lambda _: options.lr))
    model.fit(batches, validation_data=others.batch(1000), epochs=options.epochs, callbacks=callbacks, verbose=2)


if __name__ == "__main__":
    main()
