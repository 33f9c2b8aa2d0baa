"""Keras' fit with arrays and a validation split, which the strategy shares out."""

import os

import numpy as np
import tensorflow as tf
import tf_keras as keras

shared = "TF_CONFIG" in os.environ
strategy = tf.distribute.MultiWorkerMirroredStrategy() if shared else tf.distribute.get_strategy()
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((1024, 16)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(32, activation="relu", input_shape=(16,)), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=64, epochs=2, validation_split=0.25, verbose=2)
