"""Masks by chance, in no graph."""

import numpy as np
from tf_keras import Sequential, layers

rows = np.random.default_rng(1).normal(size=(128, 4))
model = Sequential([layers.Dense(8), layers.Dropout(0.5), layers.Dense(1)])
model.compile("adam", "mse", run_eagerly=True)
model.fit(rows, rows.sum(1), batch_size=16, verbose=0)
