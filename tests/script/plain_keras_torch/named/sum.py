"""A loss that is a sum over rows."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
labels = rows.sum(1, keepdims=True)

model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("sgd", keras.losses.MeanSquaredError(reduction="sum"))
model.optimizer.learning_rate = 1e-4
model.fit(rows, labels, batch_size=16, epochs=2, verbose=0)
