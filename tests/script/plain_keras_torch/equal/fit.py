"""`fit` of arrays, with an uneven last batch, validation and Adam; the backend is the script's own choice."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(109, 8)).astype("float32")
labels = rows.sum(1, keepdims=True)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
stop = keras.callbacks.EarlyStopping(restore_best_weights=True)
model.fit(rows, labels, batch_size=16, epochs=3, validation_split=0.2, callbacks=[stop], verbose=0)
model.evaluate(rows, labels, verbose=0)
