"""Masks by the generators of PyTorch, and noise by a seed of Keras."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(1).normal(size=(100, 8)).astype("float32")
labels = rows.sum(1, keepdims=True)

layers = [keras.layers.Dense(16), keras.layers.Dropout(0.5), keras.layers.GaussianNoise(0.1, seed=3)]
model = keras.Sequential([*layers, keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(rows, labels, batch_size=16, epochs=2, verbose=0)
