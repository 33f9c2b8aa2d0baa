"""`fit` of arrays, with an uneven last batch, validation, Adam and files of HDF5; the backend is its own choice."""

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
keep = keras.callbacks.ModelCheckpoint("kept/{epoch}.weights.h5", save_weights_only=True)
model.fit(rows, labels, batch_size=16, epochs=3, validation_split=0.2, callbacks=[stop, keep], verbose=0)
model.load_weights("kept/1.weights.h5")
model.evaluate(rows, labels, verbose=0)
