"""Pictures that layers of the model turn by chance."""

import numpy as np
from tf_keras import Sequential, layers

rows = np.random.default_rng(1).normal(size=(128, 8, 8, 1))
model = Sequential([layers.RandomFlip(), layers.RandomRotation(0.1), layers.Flatten(), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(rows, rows.mean((1, 2, 3)), batch_size=16, verbose=0)
