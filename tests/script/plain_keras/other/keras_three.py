"""Keras 3 by its own name, which runs with any of its backends."""

import keras
import numpy as np

rows = np.random.default_rng(1).normal(size=(128, 8)).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(rows, rows.sum(1), batch_size=32, verbose=0)
