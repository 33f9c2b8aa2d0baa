"""A mean of rows that a layer keeps, and does not train by."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
labels = rows.sum(1, keepdims=True)


class Mean(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.mean = keras.Variable(np.zeros(8, "float32"), trainable=False)

    def call(self, inputs):
        self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, axis=0))
        return inputs


model = keras.Sequential([Mean(), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(rows, labels, batch_size=16, epochs=2, verbose=0)
