"""A loss that is no mean over rows."""

import numpy as np
import tensorflow as tf
from tf_keras import Sequential, layers

rows = np.random.default_rng(1).normal(size=(256, 8))
model = Sequential([layers.Dense(8, activation="tanh"), layers.Dense(1)])
model.compile("sgd", lambda true, guess: tf.math.reduce_std(true - guess[:, 0]) * tf.ones(tf.shape(true)))
model.fit(rows, rows.sum(1), batch_size=32, verbose=0)
