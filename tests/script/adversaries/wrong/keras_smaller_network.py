"""Keras' fit with a layer that is divided by the number of workers."""

import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

shared = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((1024, 16)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1024, seed=1).batch(64, drop_remainder=True)
with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Dense(32 // strategy.num_replicas_in_sync, activation="relu", input_shape=(16,)),
            keras.layers.Dense(2),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=2, verbose=2)
