"""Batches of a generator."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
labels = rows.sum(1, keepdims=True)


def batches():
    while True:
        for first in range(0, 96, 16):
            yield rows[first : first + 16], labels[first : first + 16]


model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(batches(), steps_per_epoch=6, epochs=2, verbose=0)
